// libwebp's structures are initialized by macros and inline functions, and write through a callback: here one call
// encodes planes, and one decodes to planes or pixels.
#pragma once
#include <webp/decode.h>
#include <webp/encode.h>

/// Polled during the encoding; any result except 0 stops it.
typedef struct {
    int (*_Nonnull asks)(void *_Nullable context);
    void *_Nullable context;
} megaton_webp_stop;

static inline int megaton_webp_continues(int percent, const WebPPicture *_Nonnull picture) {
    (void) percent;
    megaton_webp_stop *stop = (megaton_webp_stop *) picture->user_data;
    return !stop->asks(stop->context);
}

/// Encodes an image of 4:2:0 planes with BT.601's video range (16 to 235, 16 to 240), with loss. Returns 0 and bytes to
/// be freed with WebPFree, or libwebp's code; VP8_ENC_ERROR_USER_ABORT if `stop` ended it.
///
/// quality: 0 to 100; method: 0 to 6. The other settings are those of the default preset, which are libvips' own.
static inline int megaton_webp_encode(
    const unsigned char *_Nonnull y, int y_stride, const unsigned char *_Nonnull u, const unsigned char *_Nonnull v,
    int uv_stride, int width, int height, float quality, int method, megaton_webp_stop *_Nonnull stop,
    unsigned char *_Nullable *_Nonnull bytes, size_t *_Nonnull length) {
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    if (!WebPConfigPreset(&config, WEBP_PRESET_DEFAULT, quality) || !WebPPictureInit(&picture)) {
        return VP8_ENC_ERROR_INVALID_CONFIGURATION;
    }
    config.method = method;
    WebPMemoryWriterInit(&writer);
    picture.use_argb = 0;
    picture.colorspace = WEBP_YUV420;
    picture.width = width;
    picture.height = height;
    // Without an alpha plane the encoder only reads.
    picture.y = (unsigned char *) y;
    picture.u = (unsigned char *) u;
    picture.v = (unsigned char *) v;
    picture.y_stride = y_stride;
    picture.uv_stride = uv_stride;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    picture.progress_hook = megaton_webp_continues;
    picture.user_data = stop;
    int done = WebPEncode(&config, &picture);
    int code = picture.error_code;
    WebPPictureFree(&picture);
    if (!done) {
        WebPMemoryWriterClear(&writer);
        return code == 0 ? VP8_ENC_ERROR_LAST : code;
    }
    *bytes = writer.mem;
    *length = writer.size;
    return 0;
}

/// Decodes a still image with loss and without alpha to its planes of 4:2:0, in BT.601's video range. Chroma planes
/// have half the width and height, rounded up. Returns 0, -1 for another kind or size of image, or libwebp's code.
///
/// skips_filter: whether the filter that smooths the edges of blocks is left out.
static inline int megaton_webp_decode_planes(
    const unsigned char *_Nonnull bytes, size_t length, int width, int height, int skips_filter,
    unsigned char *_Nonnull y, int y_stride, unsigned char *_Nonnull u, unsigned char *_Nonnull v, int uv_stride) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return -1;
    VP8StatusCode code = WebPGetFeatures(bytes, length, &config.input);
    if (code != VP8_STATUS_OK) return code;
    if (config.input.width != width || config.input.height != height || config.input.has_animation
        || config.input.has_alpha || config.input.format != 1) {
        return -1;
    }
    size_t half_height = ((size_t) height + 1) / 2;
    config.options.bypass_filtering = skips_filter;
    config.output.colorspace = MODE_YUV;
    config.output.is_external_memory = 1;
    config.output.u.YUVA.y = y;
    config.output.u.YUVA.y_stride = y_stride;
    config.output.u.YUVA.y_size = (size_t) y_stride * (size_t) height;
    config.output.u.YUVA.u = u;
    config.output.u.YUVA.v = v;
    config.output.u.YUVA.u_stride = config.output.u.YUVA.v_stride = uv_stride;
    config.output.u.YUVA.u_size = config.output.u.YUVA.v_size = (size_t) uv_stride * half_height;
    return WebPDecode(bytes, length, &config);
}

/// Decodes a still image to pixels: RGB, or if it has alpha RGBA with colors that are multiplied by it. Returns 0, -1
/// for another kind or size of image, or libwebp's code.
///
/// pixels: rows of `width` pixels of `bands` bytes, without gaps.
static inline int megaton_webp_decode_pixels(
    const unsigned char *_Nonnull bytes, size_t length, int width, int height, int bands,
    unsigned char *_Nonnull pixels) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return -1;
    VP8StatusCode code = WebPGetFeatures(bytes, length, &config.input);
    if (code != VP8_STATUS_OK) return code;
    if (config.input.width != width || config.input.height != height || config.input.has_animation
        || bands != (config.input.has_alpha ? 4 : 3)) {
        return -1;
    }
    config.output.colorspace = bands == 4 ? MODE_rgbA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = pixels;
    config.output.u.RGBA.stride = width * bands;
    config.output.u.RGBA.size = (size_t) width * (size_t) bands * (size_t) height;
    return WebPDecode(bytes, length, &config);
}
