#ifndef MEGATON_TEST_COEFFICIENTS_H
#define MEGATON_TEST_COEFFICIENTS_H

#include <stddef.h>
#include <stdint.h>

/// Reads the coefficients 0, 1, 2 and 4, in zigzag order, of all blocks of a JPEG with libjpeg: component by component,
/// row by row, also of blocks that only fill up the last units.
///
/// - Parameter count: receives the number of coefficients that were written to `output`.
/// - Returns: the number of warnings; -1 if the file cannot be read, -2 if it is not baseline with one or three
///   components, -3 if `capacity`, in coefficients, is too small.
int megaton_low_coefficients(const uint8_t *bytes, size_t length, int16_t *output, size_t capacity, size_t *count);

#endif
