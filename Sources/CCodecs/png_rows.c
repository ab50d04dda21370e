#include "png_rows.h"
#include "png_planes.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

// Section 9.2.
enum { NONE, SUB, UP, AVERAGE, PAETH };

// MARK: - Samples one by one

/// The neighbor that is nearest to left + above - corner; of equal ones the first.
static int paeth(int left, int above, int corner) {
    int to_left = abs(above - corner), to_above = abs(left - corner), to_corner = abs(left + above - 2 * corner);
    if (to_left <= to_above && to_left <= to_corner) return left;
    return to_above <= to_corner ? above : corner;
}

static void undo_up(uint8_t *restrict row, const uint8_t *restrict above, size_t length) {
    for (size_t i = 0; i < length; i++) row[i] += above[i];
}

static void undo_samples(uint8_t *row, const uint8_t *above, size_t length, size_t bands, int filter) {
    for (size_t i = 0; i < length; i++) {
        int left = i < bands ? 0 : row[i - bands], corner = i < bands ? 0 : above[i - bands];
        switch (filter) {
        case SUB: row[i] += left; break;
        case AVERAGE: row[i] += (left + above[i]) / 2; break;
        default: row[i] += paeth(left, above[i], corner); break;
        }
    }
}

// MARK: - Pixels of three or four samples at once

#ifdef __SSE2__

/// The samples of a pixel in lanes of 16 bits. Of three samples the fourth lane is whatever follows.
INLINE __m128i load(const uint8_t *pixel) {
    uint32_t bytes;
    memcpy(&bytes, pixel, 4);
    return _mm_unpacklo_epi8(_mm_cvtsi32_si128((int) bytes), _mm_setzero_si128());
}

INLINE void store(uint8_t *pixel, __m128i lanes, int bands) {
    uint32_t bytes = (uint32_t) _mm_cvtsi128_si32(_mm_packus_epi16(lanes, lanes));
    memcpy(pixel, &bytes, bands == 4 ? 4 : 2);
    if (bands == 3) pixel[2] = (uint8_t) (bytes >> 16);
}

INLINE __m128i magnitude(__m128i lanes) {
    return _mm_max_epi16(lanes, _mm_sub_epi16(_mm_setzero_si128(), lanes));
}

INLINE __m128i chosen(__m128i mask, __m128i yes, __m128i no) {
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

INLINE __m128i undone(int filter, __m128i pixel, __m128i left, __m128i above, __m128i corner) {
    __m128i guess = left;
    if (filter == AVERAGE) guess = _mm_srli_epi16(_mm_add_epi16(left, above), 1);
    if (filter == PAETH) {
        __m128i down = _mm_sub_epi16(above, corner), across = _mm_sub_epi16(left, corner);
        __m128i to_left = magnitude(down), to_above = magnitude(across);
        __m128i to_corner = magnitude(_mm_add_epi16(down, across));
        __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_above));
        guess = chosen(_mm_cmpeq_epi16(least, to_above), above, corner);
        guess = chosen(_mm_cmpeq_epi16(least, to_left), left, guess);
    }
    return _mm_and_si128(_mm_add_epi16(pixel, guess), _mm_set1_epi16(0xFF));
}

/// Undoes two rows, or one if `second` is NULL. A pixel of the second needs that of the first above it, and can be made
/// while the next one of the first is.
INLINE void undo_pixels(
    uint8_t *first, uint8_t *second, const uint8_t *above, int width, int bands, int first_filter, int second_filter) {
    __m128i left = _mm_setzero_si128(), corner = left, second_left = left;
    for (int x = 0; x < width; x++) {
        __m128i over = load(above), second_corner = left;
        left = undone(first_filter, load(first), left, over, corner);
        corner = over;
        if (second != NULL) {
            second_left = undone(second_filter, load(second), second_left, left, second_corner);
            store(second, second_left, bands);
            second += bands;
        }
        store(first, left, bands);
        first += bands;
        above += bands;
    }
}

/// Filters become constants, so that each pair has a loop of its own.
INLINE void undo_after(
    uint8_t *first, uint8_t *second, const uint8_t *above, int width, int bands, int filter, int second_filter) {
    switch (second_filter) {
    case SUB: undo_pixels(first, second, above, width, bands, filter, SUB); break;
    case AVERAGE: undo_pixels(first, second, above, width, bands, filter, AVERAGE); break;
    default: undo_pixels(first, second, above, width, bands, filter, PAETH); break;
    }
}

INLINE void undo_rows(
    uint8_t *first, uint8_t *second, const uint8_t *above, int width, int bands, int filter, int second_filter) {
    switch (filter) {
    case SUB: undo_after(first, second, above, width, bands, SUB, second_filter); break;
    case AVERAGE: undo_after(first, second, above, width, bands, AVERAGE, second_filter); break;
    default: undo_after(first, second, above, width, bands, PAETH, second_filter); break;
    }
}

static void undo_three(uint8_t *first, uint8_t *second, const uint8_t *above, int width, int filter, int other) {
    undo_rows(first, second, above, width, 3, filter, other);
}

static void undo_four(uint8_t *first, uint8_t *second, const uint8_t *above, int width, int filter, int other) {
    undo_rows(first, second, above, width, 4, filter, other);
}

#endif

// MARK: - Rows

/// Whether each pixel of a row needs the one to its left.
static int is_chain(int filter) { return filter == SUB || filter == AVERAGE || filter == PAETH; }

/// Undoes one row, and the next one too if both are chains.
///
/// - Parameter rows: The first row, from the byte that names its filter.
/// - Returns: The number of rows.
static int undo(uint8_t *rows, const uint8_t *above, int width, int bands, int left) {
    size_t length = (size_t) width * (size_t) bands;
    uint8_t *row = rows + 1;
    int filter = rows[0];
    if (filter == NONE) return 1;
    if (filter == UP) {
        undo_up(row, above, length);
        return 1;
    }
#ifdef __SSE2__
    if (bands >= 3) {
        int next = left > 1 ? row[length] : NONE, is_pair = is_chain(next);
        uint8_t *second = is_pair ? row + length + 1 : NULL;
        (bands == 3 ? undo_three : undo_four)(row, second, above, width, filter, next);
        return is_pair ? 2 : 1;
    }
#endif
    undo_samples(row, above, length, (size_t) bands, filter);
    return 1;
}

static void write_row(
    const uint8_t *row, int width, int bands, int is_premultiplied, uint8_t *const *planes, size_t offset) {
    megaton_split_row(row, width, bands, planes, offset);
    if (!is_premultiplied || bands % 2 != 0) return;
    for (int band = 0; band < bands - 1; band++) {
        megaton_premultiply_row(planes[band] + offset, planes[bands - 1] + offset, width);
    }
}

int megaton_png_rows(
    uint8_t *rows, int width, int height, int bands, int is_premultiplied, uint8_t *const *planes, size_t stride) {
    size_t length = (size_t) width * (size_t) bands;
    // Above the first row all samples are 0.
    uint8_t *zeros = calloc(length + 4, 1);
    if (zeros == NULL) return -1;
    const uint8_t *above = zeros;
    int result = 0;
    for (int y = 0; y < height && result == 0;) {
        uint8_t *first = rows + (size_t) y * (length + 1);
        if (first[0] > PAETH) {
            result = -1;
            break;
        }
        for (int count = undo(first, above, width, bands, height - y); count > 0; count--, y++) {
            above = rows + (size_t) y * (length + 1) + 1;
            write_row(above, width, bands, is_premultiplied, planes, (size_t) y * stride);
        }
    }
    free(zeros);
    return result;
}
