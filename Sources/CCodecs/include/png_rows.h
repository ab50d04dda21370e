// Rows of plain PNGs in planes.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// Undoes the filters of a PNG's rows (PNG, third edition, section 9) and writes its samples to planes. The image has 8
/// bits for each channel, no palette and no transparent color, and is not interlaced.
///
/// The filters `average` and `Paeth`, which photographs mostly have, need the sample to the left, so a processor waits
/// for each pixel. Two rows at a time keep it busy: libpng (1.6.39), which undoes one row at a time, takes twice as
/// long.
///
/// - Parameters:
///   - rows: The inflated data, which is changed: for each row the byte that names its filter, and its samples. Four
///     more bytes must follow, which are read and not used.
///   - bands: Channels, 1 to 4.
///   - planes: One for each channel, of at least `height` rows of `stride` bytes.
///   - is_premultiplied: Whether colors are multiplied by alpha, the last of two or four channels.
/// - Returns: 0, or -1 if a row has an unknown filter, or if there is no memory.
int megaton_png_rows(
    uint8_t *_Nonnull rows, int width, int height, int bands, int is_premultiplied,
    uint8_t *_Nullable const *_Nonnull planes, size_t stride);
