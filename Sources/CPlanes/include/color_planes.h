// Colors of planes for encoders that want Y, Cb and Cr.
#pragma once
#include <stdint.h>

/// Converts a row of red, green and blue to Y, Cb and Cr in the full range of 8 bits (JFIF 1.02), in place.
void megaton_ycc_row(uint8_t *_Nonnull red, uint8_t *_Nonnull green, uint8_t *_Nonnull blue, int width);

/// Lets a background show through a row of colors, which are multiplied by alpha.
void megaton_flatten_row(uint8_t *_Nonnull colors, const uint8_t *_Nonnull alpha, uint8_t background, int width);

/// Averages each two by two samples of two rows. A row of odd width ends with a sample of its own.
///
/// - Parameters:
///   - width: Samples of each row; the result has half as many, rounded up.
void megaton_halve_rows(
    const uint8_t *_Nonnull upper, const uint8_t *_Nonnull lower, uint8_t *_Nonnull result, int width);
