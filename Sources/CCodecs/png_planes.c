#include "png_planes.h"

#include <setjmp.h>
#include <string.h>
#include <png.h>

// The largest stored block, and the bytes of its header (RFC 1951 section 3.2.4).
enum { BLOCK = 65535, BLOCK_HEADER = 5 };

/// A PNG that is made while libpng reads it.
struct stream {
    const uint8_t *beginning;
    size_t beginning_left;
    // Length and name of IDAT, and the header of zlib's format.
    uint8_t idat[10];
    size_t idat_left;
    const uint8_t *rows;
    size_t rows_left;
    uint8_t block[BLOCK_HEADER];
    size_t block_header_left, block_left;
    // Checksums, which libpng ignores, and IEND.
    uint8_t end[20];
    size_t end_left;
};

static size_t take(uint8_t *out, size_t count, const uint8_t *from, size_t *left) {
    size_t taken = count < *left ? count : *left;
    memcpy(out, from, taken);
    *left -= taken;
    return taken;
}

static void begin_block(struct stream *stream) {
    size_t length = stream->rows_left < BLOCK ? stream->rows_left : BLOCK;
    stream->block[0] = length == stream->rows_left;
    stream->block[1] = length & 0xFF;
    stream->block[2] = length >> 8;
    stream->block[3] = ~length & 0xFF;
    stream->block[4] = (~length >> 8) & 0xFF;
    stream->block_header_left = BLOCK_HEADER;
    stream->block_left = length;
}

static void read_stream(png_structp png, png_bytep out, size_t count) {
    struct stream *stream = png_get_io_ptr(png);
    while (count > 0) {
        size_t taken;
        if (stream->beginning_left > 0) {
            taken = take(out, count, stream->beginning, &stream->beginning_left);
            stream->beginning += taken;
        } else if (stream->idat_left > 0) {
            taken = take(out, count, stream->idat + sizeof stream->idat - stream->idat_left, &stream->idat_left);
        } else if (stream->block_header_left > 0) {
            taken = take(out, count, stream->block + BLOCK_HEADER - stream->block_header_left,
                &stream->block_header_left);
        } else if (stream->block_left > 0) {
            taken = take(out, count, stream->rows, &stream->block_left);
            stream->rows += taken;
            stream->rows_left -= taken;
        } else if (stream->rows_left > 0) {
            begin_block(stream);
            continue;
        } else if (stream->end_left > 0) {
            taken = take(out, count, stream->end + sizeof stream->end - stream->end_left, &stream->end_left);
        } else {
            png_error(png, "the data has ended");
        }
        out += taken;
        count -= taken;
    }
}

static int set_lengths(struct stream *stream) {
    size_t blocks = (stream->rows_left + BLOCK - 1) / BLOCK;
    // Two bytes of zlib's header, and its checksum of four.
    size_t length = 2 + stream->rows_left + blocks * BLOCK_HEADER + 4;
    if (stream->rows_left == 0 || length > PNG_UINT_31_MAX) return -1;
    png_save_uint_32(stream->idat, (png_uint_32) length);
    memcpy(stream->idat + 4, "IDAT\x78\x01", 6);
    stream->idat_left = sizeof stream->idat;
    memset(stream->end, 0, sizeof stream->end);
    memcpy(stream->end + 12, "IEND", 4);
    stream->end_left = sizeof stream->end;
    return 0;
}

static void fail(png_structp png, png_const_charp text) {
    (void) text;
    png_longjmp(png, 1);
}

static void ignore_warning(png_structp png, png_const_charp text) {
    (void) png;
    (void) text;
}

void megaton_premultiply_row(uint8_t *color, const uint8_t *alpha, int width) {
    for (int x = 0; x < width; x++) {
        unsigned product = color[x] * alpha[x] + 128u;
        color[x] = (uint8_t) ((product + (product >> 8)) >> 8);
    }
}

void megaton_split_row(
    const uint8_t *pixels, int width, int bands, uint8_t *const *planes, size_t offset) {
    uint8_t *restrict first = planes[0] + offset;
    if (bands == 1) {
        memcpy(first, pixels, (size_t) width);
        return;
    }
    uint8_t *restrict second = planes[1] + offset;
    if (bands == 2) {
        for (int x = 0; x < width; x++) {
            first[x] = pixels[2 * x];
            second[x] = pixels[2 * x + 1];
        }
        return;
    }
    uint8_t *restrict third = planes[2] + offset;
    if (bands == 3) {
        for (int x = 0; x < width; x++) {
            first[x] = pixels[3 * x];
            second[x] = pixels[3 * x + 1];
            third[x] = pixels[3 * x + 2];
        }
        return;
    }
    uint8_t *restrict fourth = planes[3] + offset;
    for (int x = 0; x < width; x++) {
        first[x] = pixels[4 * x];
        second[x] = pixels[4 * x + 1];
        third[x] = pixels[4 * x + 2];
        fourth[x] = pixels[4 * x + 3];
    }
}

int megaton_png_planes(
    const uint8_t *beginning, size_t beginning_length, const uint8_t *rows, size_t rows_length, int width, int height,
    int bands, int is_premultiplied, uint8_t *const *planes, size_t stride) {
    struct stream stream = {
        .beginning = beginning, .beginning_left = beginning_length, .rows = rows, .rows_left = rows_length,
    };
    if (set_lengths(&stream) != 0) return -1;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, fail, ignore_warning);
    if (png == NULL) return -1;
    png_infop info = png_create_info_struct(png);
    if (info == NULL) {
        png_destroy_read_struct(&png, NULL, NULL);
        return -1;
    }
    png_bytep volatile row = NULL;
    if (setjmp(png_jmpbuf(png))) {
        png_free(png, row);
        png_destroy_read_struct(&png, &info, NULL);
        return -1;
    }
    png_set_user_limits(png, (png_uint_32) width, (png_uint_32) height);
    // The caller has checked them.
    png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#ifdef PNG_IGNORE_ADLER32
    png_set_option(png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#endif
    png_set_read_fn(png, &stream, read_stream);
    png_read_info(png, info);
    png_set_expand(png);
    png_read_update_info(png, info);
    if (png_get_image_width(png, info) != (png_uint_32) width || png_get_image_height(png, info) != (png_uint_32) height
        || png_get_channels(png, info) != bands || png_get_bit_depth(png, info) != 8
        || png_get_interlace_type(png, info) != PNG_INTERLACE_NONE
        || png_get_rowbytes(png, info) != (size_t) width * (size_t) bands) {
        png_error(png, "the header does not match");
    }
    row = png_malloc(png, png_get_rowbytes(png, info));
    for (int y = 0; y < height; y++) {
        size_t offset = (size_t) y * stride;
        png_read_row(png, row, NULL);
        megaton_split_row(row, width, bands, planes, offset);
        if (!is_premultiplied || bands % 2 != 0) continue;
        for (int band = 0; band < bands - 1; band++) {
            megaton_premultiply_row(planes[band] + offset, planes[bands - 1] + offset, width);
        }
    }
    png_free(png, row);
    row = NULL;
    png_destroy_read_struct(&png, &info, NULL);
    return 0;
}
