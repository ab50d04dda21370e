#include "scale_planes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    // Lobes of the kernel on each side.
    LOBES = 3,
    // Bits of a weight behind its point.
    WEIGHT_BITS = 14,
    // Bits behind the point of samples between the two directions: overshoots of the kernel still fit into 16 bits.
    MIDDLE_BITS = 6,
    // Samples of a row whose weights are beside each other, and results that are made at a time.
    LANE = 8,
    // Samples of a column are weighted in pairs.
    PAIR = 2,
    // Samples of a row that are made at a time.
    STRIP = 32,
};

struct megaton_axis {
    int source, count;
    /// Weights of each result: a multiple of LANE or of PAIR, of which the last may be zero.
    int taps;
    int is_across;
    /// The first sample of each result. Even for columns.
    int32_t *starts;
    /// Those of columns are in their order. Across, each LANE results have theirs together: LANE weights of the first
    /// and as many of the fifth, the next of both, and so on; then of the second and the sixth. Results behind the last
    /// whole LANE are in their order.
    int16_t *weights;
};

static int rounded_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

static int clamped(int value, int most) { return value < 0 ? 0 : value > most ? most : value; }

void megaton_axis_free(megaton_axis *axis) {
    if (axis == NULL) return;
    free(axis->starts);
    free(axis->weights);
    free(axis);
}

size_t megaton_axis_size(const megaton_axis *axis) {
    return (size_t) axis->count * (sizeof(int32_t) + (size_t) axis->taps * sizeof(int16_t));
}

/// The kernel at `count` places, `step` apart. Sines of places that are evenly apart follow from those of the first by
/// rotation, in a fifth of the time.
static double fill_kernel(double *kernel, int count, double first, double step) {
    double fast = M_PI * first, slow = M_PI * first / LOBES;
    double s = sin(fast), c = cos(fast), t = sin(slow), u = cos(slow);
    const double sine = sin(M_PI * step), cosine = cos(M_PI * step);
    const double slow_sine = sin(M_PI * step / LOBES), slow_cosine = cos(M_PI * step / LOBES);
    double x = first, sum = 0;
    for (int i = 0; i < count; i++, x += step) {
        double value = fabs(x) < 1e-7 ? 1 : fabs(x) >= LOBES ? 0 : LOBES * s * t / (M_PI * M_PI * x * x);
        kernel[i] = value;
        sum += value;
        double next = s * cosine + c * sine;
        c = c * cosine - s * sine;
        s = next;
        next = t * slow_cosine + u * slow_sine;
        u = u * slow_cosine - t * slow_sine;
        t = next;
    }
    return sum;
}

/// Writes weights as whole numbers whose sum is right: the error of each is added to the next one.
static void quantize(const double *exact, int16_t *weights, int count) {
    const int whole = 1 << WEIGHT_BITS;
    double error = 0;
    int sum = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        double value = exact[i] == 0 ? 0 : exact[i] * whole + error;
        weights[i] = (int16_t) lrint(value);
        if (exact[i] != 0) error = value - weights[i];
        sum += weights[i];
        if (weights[i] > weights[largest]) largest = i;
    }
    weights[largest] = (int16_t) (weights[largest] + whole - sum);
}

static void arrange(int16_t *weights, int16_t *room, int taps) {
    memcpy(room, weights, (size_t) taps * LANE * sizeof *room);
    for (int result = 0; result < LANE / 2; result++) {
        for (int tap = 0; tap < taps; tap += LANE) {
            int16_t *to = weights + (result * taps + tap) * 2;
            memcpy(to, room + result * taps + tap, LANE * sizeof *to);
            memcpy(to + LANE, room + (result + LANE / 2) * taps + tap, LANE * sizeof *to);
        }
    }
}

/// - Parameters:
///   - kernel, exact: Room for the values of the kernel, and for the weights of a result.
static void fill(megaton_axis *axis, double start, double length, double *kernel, int size, double *exact) {
    const int taps = axis->taps, source = axis->source;
    const double step = length / axis->count, squeeze = step > 1 ? 1 / step : 1;
    for (int i = 0; i < axis->count; i++) {
        double center = (i + 0.5) * step + start;
        double begin = floor(center - size / 2.0 + 0.5);
        double sum = fill_kernel(kernel, size, (begin + 0.5 - center) * squeeze, squeeze);
        int first = (int) begin;
        int low = clamped(first, source - 1), most = source > taps ? source - taps : 0;
        // A column has a tap more than the kernel has places, so that its start can be even. At the end of the plane
        // the last tap may be beyond it: its weight is zero.
        if (!axis->is_across) {
            low = low / PAIR * PAIR;
            most = rounded_up(most, PAIR);
        }
        if (low > most) low = most;
        memset(exact, 0, (size_t) taps * sizeof *exact);
        for (int tap = 0; tap < size; tap++) {
            // A result of one or two samples reaches beyond both ends more than once.
            int place = (first + tap) % (2 * source);
            if (place < 0) place += 2 * source;
            if (place >= source) place = 2 * source - 1 - place;
            exact[clamped(clamped(place, source - 1) - low, taps - 1)] += kernel[tap] / sum;
        }
        axis->starts[i] = low;
        quantize(exact, axis->weights + (size_t) i * (size_t) taps, taps);
    }
}

megaton_axis *megaton_axis_make(int source, double start, double length, int count, int is_across) {
    if (source <= 0 || count <= 0 || !(length > 0) || !isfinite(start)) return NULL;
    const int multiple = is_across ? LANE : PAIR;
    const double step = length / count;
    // A part is at most twice as long as the plane: chroma of a result of one pixel is made for two.
    double needed = ceil(2 * LOBES * (step > 1 ? step : 1));
    if (needed > 16.0 * source + 16) return NULL;
    int size = (int) needed;
    int taps = rounded_up(is_across ? size : size + 1, multiple);
    if (taps > rounded_up(source, multiple)) taps = rounded_up(source, multiple);
    megaton_axis *axis = calloc(1, sizeof *axis);
    double *kernel = malloc((size_t) size * sizeof *kernel);
    double *exact = malloc((size_t) taps * sizeof *exact);
    int16_t *room = malloc((size_t) taps * LANE * sizeof *room);
    if (axis != NULL) {
        axis->source = source;
        axis->count = count;
        axis->taps = taps;
        axis->is_across = is_across;
        axis->starts = malloc((size_t) count * sizeof *axis->starts);
        axis->weights = malloc((size_t) count * (size_t) taps * sizeof *axis->weights);
    }
    if (axis == NULL || kernel == NULL || exact == NULL || room == NULL || axis->starts == NULL
        || axis->weights == NULL) {
        megaton_axis_free(axis);
        axis = NULL;
    } else {
        fill(axis, start, length, kernel, size, exact);
        for (int i = 0; is_across && i + LANE <= count; i += LANE) {
            arrange(axis->weights + (size_t) i * (size_t) taps, room, taps);
        }
    }
    free(kernel);
    free(exact);
    free(room);
    return axis;
}

/// The weights of a result of a row that belong to LANE samples from `tap` on.
static const int16_t *row_weights(const megaton_axis *axis, int result, int tap) {
    int first = result / LANE * LANE, inside = result - first;
    if (first + LANE > axis->count) return axis->weights + (size_t) result * (size_t) axis->taps + tap;
    const int16_t *together = axis->weights + (size_t) first * (size_t) axis->taps;
    return together + (inside % (LANE / 2) * axis->taps + tap) * 2 + (inside < LANE / 2 ? 0 : LANE);
}

/// One result of a row.
static uint8_t row_sample(const int16_t *row, const megaton_axis *axis, int result) {
    int sum = 1 << (WEIGHT_BITS + MIDDLE_BITS - 1);
    const int16_t *samples = row + axis->starts[result];
    for (int tap = 0; tap < axis->taps; tap += LANE) {
        const int16_t *weights = row_weights(axis, result, tap);
        for (int i = 0; i < LANE; i++) sum += samples[tap + i] * weights[i];
    }
    return (uint8_t) clamped(sum >> (WEIGHT_BITS + MIDDLE_BITS), 255);
}

// MARK: - Any processor

static void interleave(
    const uint8_t *restrict upper, const uint8_t *restrict lower, int16_t *restrict pair, int width) {
    for (int x = 0; x < width; x++) {
        pair[2 * x] = upper[x];
        pair[2 * x + 1] = lower[x];
    }
}

/// A row of results between the two directions.
static void weigh_columns(
    const int16_t *const *pairs, const int16_t *weights, int count, int16_t *restrict row, int width) {
    const int half = 1 << (WEIGHT_BITS - MIDDLE_BITS - 1);
    for (int x = 0; x < width; x += STRIP) {
        int sums[STRIP];
        for (int i = 0; i < STRIP; i++) sums[i] = half;
        for (int k = 0; k < count; k++) {
            const int16_t *pair = pairs[k] + 2 * x;
            const int first = weights[2 * k], second = weights[2 * k + 1];
            for (int i = 0; i < STRIP; i++) sums[i] += pair[2 * i] * first + pair[2 * i + 1] * second;
        }
        for (int i = 0; i < STRIP; i++) row[x + i] = (int16_t) (sums[i] >> (WEIGHT_BITS - MIDDLE_BITS));
    }
}

static void weigh_row(const int16_t *row, const megaton_axis *axis, uint8_t *result) {
    for (int i = 0; i < axis->count; i++) result[i] = row_sample(row, axis, i);
}

// MARK: - AVX2

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static void interleave_avx2(const uint8_t *upper, const uint8_t *lower, int16_t *pair, int width) {
    for (int x = 0; x < width; x += 16) {
        __m128i first = _mm_loadu_si128((const __m128i *) (upper + x));
        __m128i second = _mm_loadu_si128((const __m128i *) (lower + x));
        __m256i *out = (__m256i *) (pair + 2 * x);
        _mm256_storeu_si256(out, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(first, second)));
        _mm256_storeu_si256(out + 1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(first, second)));
    }
}

/// `registers` results of eight samples each, an even number. Inlined, so that all sums stay in registers.
AVX2 static inline __attribute__((always_inline)) void weigh_strip_avx2(
    const int16_t *const *pairs, const int16_t *weights, int count, int16_t *row, int x, const int registers) {
    __m256i sums[8];
    for (int i = 0; i < registers; i++) sums[i] = _mm256_set1_epi32(1 << (WEIGHT_BITS - MIDDLE_BITS - 1));
    for (int k = 0; k < count; k++) {
        int32_t both;
        memcpy(&both, weights + 2 * k, sizeof both);
        const __m256i weight = _mm256_set1_epi32(both);
        const __m256i *pair = (const __m256i *) (pairs[k] + 2 * x);
        for (int i = 0; i < registers; i++) {
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_loadu_si256(pair + i), weight));
        }
    }
    for (int i = 0; i < registers; i += 2) {
        __m256i low = _mm256_srai_epi32(sums[i], WEIGHT_BITS - MIDDLE_BITS);
        __m256i high = _mm256_srai_epi32(sums[i + 1], WEIGHT_BITS - MIDDLE_BITS);
        // Packing goes by halves of a register.
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
        _mm256_storeu_si256((__m256i *) (row + x + 8 * i), packed);
    }
}

AVX2 static void weigh_columns_avx2(
    const int16_t *const *pairs, const int16_t *weights, int count, int16_t *row, int width) {
    int x = 0;
    for (; x + 2 * STRIP <= width; x += 2 * STRIP) weigh_strip_avx2(pairs, weights, count, row, x, 8);
    for (; x < width; x += STRIP) weigh_strip_avx2(pairs, weights, count, row, x, 4);
}

AVX2 static __m256i lanes(const int16_t *low, const int16_t *high) {
    __m256i first = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) low));
    return _mm256_inserti128_si256(first, _mm_loadu_si128((const __m128i *) high), 1);
}

AVX2 static void weigh_row_avx2(const int16_t *row, const megaton_axis *axis, uint8_t *result) {
    const int taps = axis->taps, bits = WEIGHT_BITS + MIDDLE_BITS;
    int i = 0;
    for (; i + LANE <= axis->count; i += LANE) {
        const int32_t *starts = axis->starts + i;
        const int16_t *weights = axis->weights + (size_t) i * (size_t) taps;
        __m256i sums[LANE / 2];
        for (int k = 0; k < LANE / 2; k++) {
            const int16_t *low = row + starts[k], *high = row + starts[k + LANE / 2];
            __m256i sum = _mm256_setzero_si256();
            for (int tap = 0; tap < taps; tap += LANE, weights += 2 * LANE) {
                __m256i weight = _mm256_loadu_si256((const __m256i *) weights);
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(lanes(low + tap, high + tap), weight));
            }
            sums[k] = sum;
        }
        __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
        all = _mm256_srai_epi32(_mm256_add_epi32(all, _mm256_set1_epi32(1 << (bits - 1))), bits);
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        _mm_storel_epi64((__m128i *) (result + i), _mm_packus_epi16(words, words));
    }
    for (; i < axis->count; i++) result[i] = row_sample(row, axis, i);
}
#endif

// MARK: - Planes

typedef struct {
    void (*interleave)(const uint8_t *upper, const uint8_t *lower, int16_t *pair, int width);
    void (*weigh_columns)(const int16_t *const *pairs, const int16_t *weights, int count, int16_t *row, int width);
    void (*weigh_row)(const int16_t *row, const megaton_axis *axis, uint8_t *result);
} routines;

static routines choose(int is_plain) {
#if defined(__x86_64__)
    if (!is_plain && __builtin_cpu_supports("avx2")) {
        return (routines) {interleave_avx2, weigh_columns_avx2, weigh_row_avx2};
    }
#endif
    (void) is_plain;
    return (routines) {interleave, weigh_columns, weigh_row};
}

int megaton_scale(
    const megaton_axis *across, const megaton_axis *down, const uint8_t *from, size_t from_stride, uint8_t *to,
    size_t to_stride, int is_plain) {
    const routines use = choose(is_plain);
    const int width = across->source, last = down->source - 1;
    const int padded = rounded_up(width, STRIP);
    // A result needs some pairs of rows, and the next one most of them too: each pair is made once.
    const int count = down->taps / PAIR, ring = count + 1;
    const size_t pair_length = (size_t) padded * PAIR, row_length = (size_t) (padded + across->taps);
    int16_t *pairs = calloc((size_t) ring * pair_length, sizeof *pairs);
    int16_t *row = calloc(row_length, sizeof *row);
    const int16_t **needed = calloc((size_t) count, sizeof *needed);
    int code = -1;
    if (pairs != NULL && row != NULL && needed != NULL) {
        int made = 0;
        for (int y = 0; y < down->count; y++) {
            const int first = down->starts[y] / PAIR;
            if (made < first) made = first;
            for (; made < first + count; made++) {
                const uint8_t *upper = from + (size_t) clamped(2 * made, last) * from_stride;
                const uint8_t *lower = from + (size_t) clamped(2 * made + 1, last) * from_stride;
                use.interleave(upper, lower, pairs + (size_t) (made % ring) * pair_length, width);
            }
            for (int k = 0; k < count; k++) needed[k] = pairs + (size_t) ((first + k) % ring) * pair_length;
            use.weigh_columns(needed, down->weights + (size_t) y * (size_t) down->taps, count, row, padded);
            use.weigh_row(row, across, to + (size_t) y * to_stride);
        }
        code = 0;
    }
    free(pairs);
    free(row);
    free(needed);
    return code;
}
