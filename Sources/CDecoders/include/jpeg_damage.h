// How whole the data of a JPEG is.
#pragma once
#include <stddef.h>

/// From none to the worst, as the levels of libvips' `fail_on` have it, from the last to the first.
typedef enum {
    MEGATON_JPEG_WHOLE = 0,
    /// Oddities that change nothing, such as bytes between two segments.
    MEGATON_JPEG_WARNING = 1,
    /// Codes that cannot be: a part of the image shows something else.
    MEGATON_JPEG_ERROR = 2,
    /// Coded data ends before the image does, whatever follows it.
    MEGATON_JPEG_TRUNCATED = 3,
    /// It cannot be decoded at all.
    MEGATON_JPEG_FATAL = 4,
    /// The caller wanted it to end.
    MEGATON_JPEG_STOPPED = 5,
} megaton_jpeg_damage;

typedef struct {
    megaton_jpeg_damage worst;
    /// What libjpeg says of the first of the worst; empty if it is whole.
    char text[256];
    /// The row at which that was found, of an image that is decoded from the top down; else -1.
    int row;
    int rows;
} megaton_jpeg_report;

/// Decodes all entropy-coded data, at an eighth of the size, and throws the pixels away. libjpeg pads data that ends
/// early with zeros and only warns, once for each restart interval: all warnings are looked at. Arithmetic-coded data
/// that ends early is found only if it lacks a restart marker or comes to an impossible code: any first part of such a
/// scan is a whole scan of some other image.
///
/// - Parameters:
///   - asks: not 0 ends it.
void megaton_jpeg_examine(
    const unsigned char *_Nonnull bytes, size_t length, int (*_Nonnull asks)(void *_Nullable context),
    void *_Nullable context, megaton_jpeg_report *_Nonnull report);
