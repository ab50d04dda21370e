// zimg's structures are versioned by macros that Swift cannot read: one call builds a graph, one runs it.
#pragma once
#include <stddef.h>
#include <zimg.h>

/// A graph that scales a part of a plane of 8-bit samples with Lanczos' kernel of three lobes; NULL if it cannot be
/// made, for the reason of zimg_get_last_error. To be freed with zimg_filter_graph_free. Running it changes nothing in
/// it, so several threads may.
///
/// The part is in samples, fractions too, and may reach beyond the plane, which is mirrored at its edges.
static inline zimg_filter_graph *_Nullable megaton_zimg_build(
    unsigned width, unsigned height, double left, double top, double part_width, double part_height,
    unsigned out_width, unsigned out_height) {
    zimg_image_format from, to;
    zimg_graph_builder_params how;
    zimg_image_format_default(&from, ZIMG_API_VERSION);
    zimg_image_format_default(&to, ZIMG_API_VERSION);
    zimg_graph_builder_params_default(&how, ZIMG_API_VERSION);
    from.pixel_type = to.pixel_type = ZIMG_PIXEL_BYTE;
    from.color_family = to.color_family = ZIMG_COLOR_GREY;
    from.pixel_range = to.pixel_range = ZIMG_RANGE_FULL;
    from.width = width;
    from.height = height;
    from.active_region.left = left;
    from.active_region.top = top;
    from.active_region.width = part_width;
    from.active_region.height = part_height;
    to.width = out_width;
    to.height = out_height;
    how.resample_filter = ZIMG_RESIZE_LANCZOS;
    how.filter_param_a = 3;
    // Not ZIMG_CPU_AUTO_64B: with AVX-512 zimg 3.0.4 reads wrong samples for some columns if a row is scaled by a
    // little more than two, such as 200 samples to 97.
    how.cpu_type = ZIMG_CPU_AUTO;
    return zimg_filter_graph_build(&from, &to, &how);
}

/// Scales a plane. Rows begin at multiples of 64 bytes, and so does the room, which is as large as
/// zimg_filter_graph_get_tmp_size says. Returns 0, or zimg's code.
static inline int megaton_zimg_process(
    const zimg_filter_graph *_Nonnull graph, const void *_Nonnull from, ptrdiff_t from_stride, void *_Nonnull to,
    ptrdiff_t to_stride, void *_Nullable room) {
    zimg_image_buffer_const in = {ZIMG_API_VERSION};
    zimg_image_buffer out = {ZIMG_API_VERSION};
    in.plane[0].data = from;
    in.plane[0].stride = from_stride;
    in.plane[0].mask = ZIMG_BUFFER_MAX;
    out.plane[0].data = to;
    out.plane[0].stride = to_stride;
    out.plane[0].mask = ZIMG_BUFFER_MAX;
    return zimg_filter_graph_process(graph, &in, &out, room, 0, 0, 0, 0);
}
