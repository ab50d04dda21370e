#ifndef MEGATON_TEST_COEFFICIENTS_H
#define MEGATON_TEST_COEFFICIENTS_H

#include <stddef.h>
#include <stdint.h>

/// Reads the coefficients 0, 1, 2 and 4, in zigzag order, of all blocks of a JPEG with libjpeg: component by component,
/// row by row, also of blocks that only fill up the last units.
///
/// - Parameter count: receives the number of coefficients that were written to `output`.
/// - Returns: the number of warnings; -1 if the file cannot be read, -2 if it has neither one component nor
///   three, -3 if `capacity`, in coefficients, is too small.
int megaton_low_coefficients(const uint8_t *bytes, size_t length, int16_t *output, size_t capacity, size_t *count);

#define MEGATON_MAX_SCANS 64

/// A scan of a progressive JPEG (ITU-T T.81 annex G.1.1.1).
struct megaton_scan {
    /// The only component; all three if negative.
    int component;
    /// The first and the last coefficient, in zigzag order.
    int first;
    int last;
    /// Low bits that earlier scans have left, 0 if there are none; and those that this one leaves.
    int bits_before;
    int missing_bits;
};

/// Writes the coefficients of a JPEG as a progressive one, with libjpeg.
///
/// - Parameters:
///   - restart_interval: units between two restart markers; 0 without.
///   - written: receives the number of bytes that were written to `output`.
/// - Returns: 0; -1 if libjpeg refuses the file or the scans, -2 if there are too many scans, -3 if `capacity`, in
///   bytes, is too small.
int megaton_progressive_jpeg(
    const uint8_t *bytes, size_t length, const struct megaton_scan *scans, int count, unsigned restart_interval,
    uint8_t *output, size_t capacity, size_t *written);

#endif
