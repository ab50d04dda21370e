// JPEGs from planes of samples.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// The form of a JPEG.
typedef struct {
    /// Samples of luma.
    int width, height;
    /// 1 for gray, 3 with Cb and Cr.
    int planes;
    /// Samples of luma for each sample of a chroma plane, in a row and in a column: 1 or 2.
    int horizontal, vertical;
    /// Divisors of the coefficients, 64 each in natural order (row by row), 1 to 255.
    const uint16_t *_Nonnull luma;
    const uint16_t *_Nonnull chroma;
    /// Whether it has several scans.
    int is_progressive;
    /// Whether its Huffman codes are made for it, see `megaton_jpeg_recode`; those of several scans always are.
    int is_optimized;
} megaton_jpeg_form;

/// Encodes planes with tables of the caller, which the API of TurboJPEG 2 does not allow.
///
/// - Parameters:
///   - planes: Of chroma, as many samples as cover the luma; samples beyond an edge are repeated.
///   - strides: Bytes between the beginnings of rows.
///   - should_stop: Polled for each row of blocks of each scan; any result except 0 ends the encoding.
///   - length: Receives the number of bytes.
/// - Returns: The bytes, to be freed with `free`; NULL if there is no memory, if libjpeg refuses the form, or if it was
///   stopped.
uint8_t *_Nullable megaton_jpeg_encode(
    const megaton_jpeg_form *_Nonnull form, const uint8_t *_Nonnull const *_Nonnull planes,
    const size_t *_Nonnull strides, int (*_Nonnull should_stop)(void *_Nullable context), void *_Nullable context,
    size_t *_Nonnull length);
