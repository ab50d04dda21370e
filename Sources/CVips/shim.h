// Fixed-arity wrappers of libvips operations, which take a NULL-terminated list of optional arguments that Swift cannot
// pass. Each returns 0, or -1 with a message in libvips' error buffer.
#pragma once
#include <vips/vips.h>

/// Starts libvips with only these loaders enabled: the library itself refuses everything else that this build can read
/// (ImageMagick, matio, OpenSlide, PDF, SVG, FITS, TIFF ...), for every caller.
static inline int megaton_vips_start(const char *_Nonnull name) {
    if (vips_init(name)) return -1;
    vips_concurrency_set(1);
    vips_cache_set_max(0);
    vips_leak_set(FALSE);
    vips_block_untrusted_set(TRUE);
    vips_operation_block_set("VipsForeignLoad", TRUE);
    vips_operation_block_set("VipsForeignLoadJpeg", FALSE);
    vips_operation_block_set("VipsForeignLoadPng", FALSE);
    vips_operation_block_set("VipsForeignLoadWebp", FALSE);
    vips_operation_block_set("VipsForeignLoadNsgif", FALSE);
    vips_operation_block_set("VipsForeignLoadHeif", FALSE);
    return 0;
}

/// Opens an image by its header; pixels are decoded on demand, from the first row to the last. The buffer must outlive
/// the image. Damage of the given level is an error instead of a gray area. vips_thumbnail_buffer would do everything
/// in one call, but takes "fail_on" and ignores it (seen in 8.14.1).
static inline int megaton_vips_load(
    const void *_Nonnull buffer, size_t length, const char *_Nonnull options, VipsFailOn fail_on,
    VipsImage *_Nullable *_Nonnull out) {
    *out = vips_image_new_from_buffer(
        buffer, length, options, "access", VIPS_ACCESS_SEQUENTIAL, "fail_on", fail_on, NULL);
    return *out == NULL ? -1 : 0;
}

/// Tests on one black pixel whether lcms can link the image's profile for samples of the image's kind.
static inline int megaton_vips_try_profile(VipsImage *_Nonnull in, const void *_Nonnull profile, size_t length) {
    VipsImage *black = NULL, *cast = NULL, *copy = NULL, *linked = NULL;
    int result = vips_black(&black, 1, 1, "bands", vips_image_get_bands(in), NULL)
        || vips_cast(black, &cast, vips_image_get_format(in), NULL)
        || vips_copy(cast, &copy, "interpretation", vips_image_get_interpretation(in), NULL);
    if (!result) {
        vips_image_set_blob_copy(copy, VIPS_META_ICC_NAME, profile, length);
        size_t size = 0;
        void *pixel = NULL;
        result = vips_icc_import(copy, &linked, "embedded", TRUE, NULL)
            || (pixel = vips_image_write_to_memory(linked, &size)) == NULL;
        g_free(pixel);
    }
    if (black) g_object_unref(black);
    if (cast) g_object_unref(cast);
    if (copy) g_object_unref(copy);
    if (linked) g_object_unref(linked);
    return result ? -1 : 0;
}

/// Removes the first page from the metadata of an animation's pages.
static inline void megaton_vips_drop_page(VipsImage *_Nonnull image) {
    int pages = 0, count = 0, *delays = NULL;
    if (vips_image_get_typeof(image, VIPS_META_N_PAGES) && !vips_image_get_int(image, VIPS_META_N_PAGES, &pages)) {
        vips_image_set_int(image, VIPS_META_N_PAGES, pages - 1);
    }
    if (vips_image_get_typeof(image, "delay") && !vips_image_get_array_int(image, "delay", &delays, &count)
        && count > 1) {
        int *rest = g_memdup2(delays + 1, sizeof(int) * (size_t) (count - 1));
        vips_image_set_array_int(image, "delay", rest, count - 1);
        g_free(rest);
    }
}

/// Unblocks operations of this class and its subclasses, although libvips does not trust them.
static inline void megaton_vips_allow(const char *_Nonnull operation) { vips_operation_block_set(operation, FALSE); }

/// Copies 8-bit pixels in rows from the top: 1 to 4 interleaved bands, the second or fourth being alpha.
static inline int megaton_vips_from_memory(
    const void *_Nonnull pixels, size_t length, int width, int height, int bands, VipsImage *_Nullable *_Nonnull out) {
    VipsImage *raw = vips_image_new_from_memory_copy(pixels, length, width, height, bands, VIPS_FORMAT_UCHAR);
    if (raw == NULL) return -1;
    int result = vips_copy(
        raw, out, "interpretation", bands < 3 ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB, NULL);
    g_object_unref(raw);
    return result;
}

/// A copy that shares the pixels, and whose metadata may be changed.
static inline int megaton_vips_copy(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_copy(in, out, NULL);
}

/// Turns upright and scales to exactly width x height, and converts to sRGB if there is a profile. Without a profile
/// the values are taken as sRGB. An export profile is not set in that case, because libvips would convert through a
/// default profile that turns pure green into (18, 253, 22) (seen in 8.14.1).
static inline int megaton_vips_thumbnail_image(
    VipsImage *_Nonnull in, int width, int height, VipsImage *_Nullable *_Nonnull out) {
    if (vips_image_get_typeof(in, VIPS_META_ICC_NAME)) {
        return vips_thumbnail_image(
            in, out, width, "height", height, "size", VIPS_SIZE_FORCE, "export_profile", "srgb", NULL);
    }
    return vips_thumbnail_image(in, out, width, "height", height, "size", VIPS_SIZE_FORCE, NULL);
}

/// As above, but colors stay in the image's own profile, which stays with it.
static inline int megaton_vips_thumbnail_in_profile(
    VipsImage *_Nonnull in, int width, int height, VipsImage *_Nullable *_Nonnull out) {
    return vips_thumbnail_image(in, out, width, "height", height, "size", VIPS_SIZE_FORCE, NULL);
}

/// Scales each side by its own factor.
static inline int megaton_vips_resize(
    VipsImage *_Nonnull in, double across, double down, VipsImage *_Nullable *_Nonnull out) {
    return vips_resize(in, out, across, "vscale", down, NULL);
}

/// Converts an image with a profile to sRGB with 16 bits, without its profile. The alpha channel is scaled by itself:
/// libvips before 8.17 only casts it, so that an opaque pixel would have 255 of 65535 (libvips#4302).
static inline int megaton_vips_to_wide_srgb(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    VipsImage *steps[5] = {NULL};
    int result = 0, has_alpha = vips_image_hasalpha(in), bands = vips_image_get_bands(in);
    if (has_alpha) result = vips_extract_band(in, &steps[0], 0, "n", bands - 1, NULL);
    VipsImage *colors = has_alpha ? steps[0] : in;
    result = result || vips_icc_transform(colors, &steps[1], "srgb", "embedded", TRUE, "depth", 16, NULL);
    if (!result && has_alpha) {
        double scale = vips_image_get_format(in) == VIPS_FORMAT_UCHAR ? 257 : 1;
        result = vips_extract_band(in, &steps[2], bands - 1, NULL)
            || vips_linear1(steps[2], &steps[3], scale, 0, NULL)
            || vips_cast_ushort(steps[3], &steps[4], NULL)
            || vips_bandjoin2(steps[1], steps[4], out, NULL);
    } else if (!result) {
        result = vips_copy(steps[1], out, NULL);
    }
    for (int i = 0; i < 5; i++) if (steps[i]) g_object_unref(steps[i]);
    if (result) return -1;
    // Otherwise it would be converted again.
    vips_image_remove(*out, VIPS_META_ICC_NAME);
    return 0;
}

/// As megaton_vips_thumbnail_image, but scales in linear light (scRGB). A gray image stays gray; without a profile,
/// libvips would scale it in GREY16, which is not linear (8.14.1). With a profile, it would scale in XYZ with the white
/// of D50, and not adapt that: red would come out 19 values brighter. So the colors are converted before, with 16 bits.
static inline int megaton_vips_thumbnail_linear(
    VipsImage *_Nonnull in, int width, int height, VipsImage *_Nullable *_Nonnull out) {
    int has_profile = vips_image_get_typeof(in, VIPS_META_ICC_NAME) != 0, is_gray = vips_image_get_bands(in) <= 2;
    VipsImage *converted = NULL, *light = NULL, *scaled = NULL;
    int result = has_profile ? megaton_vips_to_wide_srgb(in, &converted) : 0;
    VipsImage *source = converted ? converted : in;
    if (!result && vips_image_get_bands(source) <= 2) {
        result = vips_colourspace(source, &light, VIPS_INTERPRETATION_scRGB, NULL);
    }
    result = result || vips_thumbnail_image(
        light ? light : source, &scaled, width, "height", height, "size", VIPS_SIZE_FORCE, "linear", TRUE, NULL);
    VipsInterpretation colors = is_gray ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB;
    result = result || vips_colourspace(scaled, out, colors, NULL);
    if (converted) g_object_unref(converted);
    if (light) g_object_unref(light);
    if (scaled) g_object_unref(scaled);
    return result ? -1 : 0;
}

/// Crops the most salient region of that size, or the one with the most detail. The input must be in memory, because it
/// is read twice. The result's offset gives the position of the region.
static inline int megaton_vips_smartcrop(
    VipsImage *_Nonnull in, int width, int height, int entropy, VipsImage *_Nullable *_Nonnull out) {
    return vips_smartcrop(
        in, out, width, height, "interesting", entropy ? VIPS_INTERESTING_ENTROPY : VIPS_INTERESTING_ATTENTION, NULL);
}

/// Stacks the images vertically, as libvips stores animations.
static inline int megaton_vips_join(
    VipsImage *_Nonnull *_Nonnull pages, int count, VipsImage *_Nullable *_Nonnull out) {
    return vips_arrayjoin(pages, out, count, "across", 1, NULL);
}

static inline int megaton_vips_extract(
    VipsImage *_Nonnull in, int left, int top, int width, int height, VipsImage *_Nullable *_Nonnull out) {
    return vips_extract_area(in, out, left, top, width, height, NULL);
}

/// Blends the alpha channel into a background of one value for each of the other bands.
static inline int megaton_vips_flatten(
    VipsImage *_Nonnull in, const double *_Nonnull background, int count, VipsImage *_Nullable *_Nonnull out) {
    VipsArrayDouble *color = vips_array_double_new(background, count);
    int result = vips_flatten(in, out, "background", color, NULL);
    vips_area_unref(VIPS_AREA(color));
    return result;
}

static inline int megaton_vips_to_srgb(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_colourspace(in, out, VIPS_INTERPRETATION_sRGB, NULL);
}

static inline int megaton_vips_cast_uchar(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_cast_uchar(in, out, NULL);
}

/// Encodes an image with an operation such as "jpegsave_buffer" and arguments such as "Q=80,strip=true". The caller
/// frees the bytes with g_free.
static inline int megaton_vips_save(
    VipsImage *_Nonnull in, const char *_Nonnull saver, const char *_Nonnull arguments, void *_Nullable *_Nonnull bytes,
    size_t *_Nonnull length) {
    VipsOperation *operation = vips_operation_new(saver);
    if (operation == NULL) return -1;
    int result = vips_object_set_from_string(VIPS_OBJECT(operation), arguments);
    if (result == 0) {
        g_object_set(operation, "in", in, NULL);
        result = vips_cache_operation_buildp(&operation);
    }
    if (result == 0) {
        VipsBlob *blob = NULL;
        g_object_get(operation, "buffer", &blob, NULL);
        if (blob != NULL) {
            // The bytes leave the blob, as they do in libvips' own wrappers of these operations.
            *bytes = VIPS_AREA(blob)->data;
            *length = VIPS_AREA(blob)->length;
            VIPS_AREA(blob)->free_fn = NULL;
            vips_area_unref(VIPS_AREA(blob));
        }
    }
    vips_object_unref_outputs(VIPS_OBJECT(operation));
    g_object_unref(operation);
    return result;
}

/// An integer from the metadata, or the fallback if it is missing.
static inline int megaton_vips_get_int(VipsImage *_Nonnull image, const char *_Nonnull name, int fallback) {
    int value = fallback;
    if (vips_image_get_typeof(image, name) == 0 || vips_image_get_int(image, name, &value)) return fallback;
    return value;
}

/// Polled after each strip of pixels; any result except 0 stops the computation.
typedef struct {
    int (*_Nonnull asks)(void *_Nullable context);
    void *_Nullable context;
} megaton_vips_stop;

static void megaton_vips_check_stop(VipsImage *image, VipsProgress *progress, void *stop) {
    (void) progress;
    megaton_vips_stop *poll = (megaton_vips_stop *) stop;
    if (poll->asks(poll->context)) vips_image_set_kill(image, TRUE);
}

/// Installs the poll. It must outlive the image's evaluation; remove it afterwards with the returned handler.
static inline gulong megaton_vips_set_stop(VipsImage *_Nonnull image, megaton_vips_stop *_Nonnull stop) {
    vips_image_set_progress(image, TRUE);
    return g_signal_connect(image, "eval", G_CALLBACK(megaton_vips_check_stop), stop);
}

static inline void megaton_vips_clear_stop(VipsImage *_Nonnull image, gulong handler) {
    g_signal_handler_disconnect(image, handler);
    vips_image_set_progress(image, FALSE);
}

static inline void megaton_vips_unref(VipsImage *_Nonnull image) { g_object_unref(image); }
