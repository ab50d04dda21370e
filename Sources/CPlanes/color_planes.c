#include "color_planes.h"

void megaton_ycc_row(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, int width) {
    // Coefficients times 2^16; one half for rounding, and a little less where it would lead to 256.
    for (int x = 0; x < width; x++) {
        int r = red[x], g = green[x], b = blue[x];
        red[x] = (uint8_t) ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
        green[x] = (uint8_t) ((-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16);
        blue[x] = (uint8_t) ((32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16);
    }
}

void megaton_flatten_row(uint8_t *restrict colors, const uint8_t *restrict alpha, uint8_t background, int width) {
    for (int x = 0; x < width; x++) {
        unsigned rest = (255u - alpha[x]) * background + 128u;
        unsigned sum = colors[x] + ((rest + (rest >> 8)) >> 8);
        colors[x] = (uint8_t) (sum < 255u ? sum : 255u);
    }
}

void megaton_halve_rows(
    const uint8_t *restrict upper, const uint8_t *restrict lower, uint8_t *restrict result, int width) {
    for (int x = 0; x < width / 2; x++) {
        unsigned sum = 2u + upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1];
        result[x] = (uint8_t) (sum >> 2);
    }
    if (width % 2 != 0) result[width / 2] = (uint8_t) ((1u + upper[width - 1] + lower[width - 1]) >> 1);
}
