// Scaling of planes of 8-bit samples with Lanczos' kernel of three lobes.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// The weights of one direction. Nothing changes them, so several threads may use them.
typedef struct megaton_axis megaton_axis;

/// Computes the weights of one direction.
///
/// A sample beyond an end of the plane is the one as far within it. The weights of a result are whole numbers and their
/// sum is 2^14, so that an even plane stays as it is. They are the same on all machines, up to the last place of `sin`.
///
/// - Parameters:
///   - source: Samples of the plane in this direction.
///   - start, length: The part that is scaled, in samples: fractions too, and perhaps half a sample beyond an end.
///   - count: Samples of the result.
///   - is_across: 1 for rows, 0 for columns.
/// - Returns: NULL if a number is not positive or if there is no memory. To be freed with `megaton_axis_free`.
megaton_axis *_Nullable megaton_axis_make(int source, double start, double length, int count, int is_across);

void megaton_axis_free(megaton_axis *_Nullable axis);

/// The size of the weights, in bytes.
size_t megaton_axis_size(const megaton_axis *_Nonnull axis);

/// Scales a plane, first its columns and then its rows, with 16 bits in between. All processors have the same result.
///
/// - Parameters:
///   - across, down: The directions, for the sizes of both planes.
///   - from: Rows that begin at multiples of 16 bytes, and end there too: bytes behind the samples are read.
///   - is_plain: 1 to do without AVX2, for tests.
/// - Returns: 0, or -1 if there is no memory.
int megaton_scale(
    const megaton_axis *_Nonnull across, const megaton_axis *_Nonnull down, const uint8_t *_Nonnull from,
    size_t from_stride, uint8_t *_Nonnull to, size_t to_stride, int is_plain);
