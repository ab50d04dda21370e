// Integrity of a JPEG's data.
#pragma once
#include <stddef.h>

/// Severities in ascending order; they correspond to the levels of libvips' `fail_on` in descending order.
typedef enum {
    MEGATON_JPEG_WHOLE = 0,
    /// Oddities without effect, such as bytes between two segments.
    MEGATON_JPEG_WARNING = 1,
    /// Impossible codes: a part of the image shows something else.
    MEGATON_JPEG_ERROR = 2,
    /// Coded data ends before the image does, whatever follows it.
    MEGATON_JPEG_TRUNCATED = 3,
    /// The image cannot be decoded at all.
    MEGATON_JPEG_FATAL = 4,
    /// The caller stopped the examination.
    MEGATON_JPEG_STOPPED = 5,
    /// There was no memory for the examination, which says nothing about the data.
    MEGATON_JPEG_NO_MEMORY = 6,
} megaton_jpeg_damage;

typedef struct {
    megaton_jpeg_damage worst;
    /// libjpeg's message for the first damage of the worst severity; empty if the data is whole.
    char text[256];
    /// The row at which that damage was found, if the image is decoded from the top down; otherwise -1.
    int row;
    int rows;
    /// Whether that damage was found after the first scan had begun.
    int is_in_scan;
} megaton_jpeg_report;

/// Decodes all entropy-coded data, at an eighth of the size, and discards the pixels. libjpeg pads truncated data with
/// zeros and only warns, once for each restart interval, so all warnings are examined. Truncated arithmetic-coded data
/// is detected only if it lacks a restart marker or contains an impossible code: every prefix of such a scan is a whole
/// scan of another image.
///
/// - Parameters:
///   - should_stop: Polled during decoding; any result except 0 stops the examination.
void megaton_jpeg_examine(
    const unsigned char *_Nonnull bytes, size_t length, int (*_Nonnull should_stop)(void *_Nullable context),
    void *_Nullable context, megaton_jpeg_report *_Nonnull report);
