// An image operation that copies samples of the pixels that pass by, in the style of shim.h.
#pragma once
#include <vips/vips.h>

/// Samples on a regular grid over the first frame of an image, with all of its bands, 8 bits each.
typedef struct {
    unsigned char *_Nonnull samples;
    /// Columns and rows of the grid.
    int across, down;
    /// Size of the frame in pixels.
    int width, height;
} megaton_vips_samples;

/// The pixel of a sample: the middle of its part of the side.
static inline int megaton_vips_sample_place(int index, int count, int length) {
    return (int) ((2 * (gint64) index + 1) * length / (2 * (gint64) count));
}

/// Passes a region on, and copies the samples in it. Threads may compute the same region twice, and then write the same
/// bytes.
static int megaton_vips_sample_generate(
    VipsRegion *out, void *sequence, void *image, void *context, gboolean *stop) {
    (void) image;
    (void) stop;
    VipsRegion *in = (VipsRegion *) sequence;
    const megaton_vips_samples *grid = (const megaton_vips_samples *) context;
    const VipsRect *area = &out->valid;
    if (vips_region_prepare(in, area) || vips_region_region(out, in, area, area->left, area->top)) return -1;
    const int bands = in->im->Bands;
    const gboolean is_wide = in->im->BandFmt == VIPS_FORMAT_USHORT;
    for (int row = 0; row < grid->down; row++) {
        const int y = megaton_vips_sample_place(row, grid->down, grid->height);
        if (y < area->top) continue;
        if (y >= VIPS_RECT_BOTTOM(area)) break;
        for (int column = 0; column < grid->across; column++) {
            const int x = megaton_vips_sample_place(column, grid->across, grid->width);
            if (x < area->left || x >= VIPS_RECT_RIGHT(area)) continue;
            const VipsPel *pixel = VIPS_REGION_ADDR(in, x, y);
            unsigned char *sample = grid->samples + ((size_t) row * grid->across + column) * bands;
            for (int band = 0; band < bands; band++) {
                sample[band] = is_wide ? (unsigned char) (((const unsigned short *) pixel)[band] >> 8) : pixel[band];
            }
        }
    }
    return 0;
}

/// The same image, whose samples are copied when it is computed. Its samples have 8 or 16 bits. The grid must outlive
/// the evaluation.
static inline int megaton_vips_sample(
    VipsImage *_Nonnull in, megaton_vips_samples *_Nonnull grid, VipsImage *_Nullable *_Nonnull out) {
    VipsImage *image = vips_image_new();
    // The reference lives as long as the new image.
    g_object_set_data_full(G_OBJECT(image), "megaton-sampled", g_object_ref(in), g_object_unref);
    if (vips_image_pipelinev(image, VIPS_DEMAND_STYLE_ANY, in, NULL)
        || vips_image_generate(image, vips_start_one, megaton_vips_sample_generate, vips_stop_one, in, grid)) {
        g_object_unref(image);
        return -1;
    }
    *out = image;
    return 0;
}
