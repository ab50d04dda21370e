// Samples of a PNG in planes, and planes from pixels.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// Undoes the filters of a PNG's rows, which must not be interlaced, and writes its samples to planes, by libpng.
///
/// Inflating is more than half of the work of a PNG, and libpng inflates with zlib alone. So the caller inflates with a
/// faster library, and libpng reads the rows from blocks that are stored and not compressed (RFC 1951 section 3.2.4).
///
/// - Parameters:
///   - beginning: The signature and the chunks IHDR and, if there are any, PLTE and tRNS, as in the file. The caller
///     has compared their checksums.
///   - rows: The inflated data: for each row the byte that names its filter, and its samples.
///   - bands: Expected channels after palettes and transparent colors are expanded: 1 to 4.
///   - planes: One for each channel, of at least `height` rows of `stride` bytes.
///   - is_premultiplied: Whether colors are multiplied by alpha, the last of two or four channels.
/// - Returns: 0, or -1 if the data is damaged or does not match the other parameters, or if there is no memory.
int megaton_png_planes(
    const uint8_t *_Nonnull beginning, size_t beginning_length, const uint8_t *_Nonnull rows, size_t rows_length,
    int width, int height, int bands, int is_premultiplied, uint8_t *_Nullable const *_Nonnull planes, size_t stride);

/// Writes the channels of a row of pixels, 1 to 4, each to a plane of its own.
void megaton_split_row(
    const uint8_t *_Nonnull pixels, int width, int bands, uint8_t *_Nullable const *_Nonnull planes, size_t offset);

/// Multiplies colors by alpha, rounded to the nearest.
void megaton_premultiply_row(uint8_t *_Nonnull color, const uint8_t *_Nonnull alpha, int width);
