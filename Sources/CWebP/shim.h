// libwebp's structures are initialized by macros and inline functions, and write through a callback: here one call
// encodes planes.
#pragma once
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
