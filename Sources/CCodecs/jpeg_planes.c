#include "jpeg_planes.h"

#include "jpeg_codes.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// jpeglib.h needs size_t and FILE.
#include <jpeglib.h>

/// Samples of the side of a block.
enum { SIDE = 8 };

struct encoder {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf end;
    int (*should_stop)(void *context);
    void *context;
    struct jpeg_destination_mgr destination;
    struct jpeg_compress_struct image;
    uint8_t *bytes;
    size_t capacity;
};

static struct encoder *of(j_common_ptr codec) { return (struct encoder *) codec->client_data; }

static void fail(j_common_ptr codec) { longjmp(of(codec)->end, 1); }

static void check_stop(j_common_ptr codec) {
    if (of(codec)->should_stop(of(codec)->context)) fail(codec);
}

static void ignore_message(j_common_ptr codec) { (void) codec; }

static void ignore_warning(j_common_ptr codec, int level) {
    (void) codec;
    (void) level;
}

// libjpeg's own destination in memory loses its buffer if an error ends the encoding.

static void resize(j_compress_ptr image, size_t capacity) {
    struct encoder *encoder = of((j_common_ptr) image);
    uint8_t *bytes = realloc(encoder->bytes, capacity);
    if (bytes == NULL) fail((j_common_ptr) image);
    encoder->destination.next_output_byte = bytes + encoder->capacity;
    encoder->destination.free_in_buffer = capacity - encoder->capacity;
    encoder->bytes = bytes;
    encoder->capacity = capacity;
}

/// More than most thumbnails have.
static void begin_bytes(j_compress_ptr image) { resize(image, 32 * 1024); }

/// Called if all bytes of the buffer are used, whatever the destination says.
static boolean add_bytes(j_compress_ptr image) {
    size_t capacity = of((j_common_ptr) image)->capacity;
    // `RenderCost` counts the bytes of a large image, of which the buffer may have half as many more.
    resize(image, capacity + (capacity < (4 << 20) ? capacity : capacity / 2));
    return TRUE;
}

static void end_bytes(j_compress_ptr image) { (void) image; }

static void set_table(j_compress_ptr image, int slot, const uint16_t *divisors) {
    unsigned int table[DCTSIZE2];
    for (int i = 0; i < DCTSIZE2; i++) table[i] = divisors[i];
    // TRUE: at most 255, as baseline requires.
    jpeg_add_quant_table(image, slot, table, 100, TRUE);
}

static void describe(j_compress_ptr image, const megaton_jpeg_form *form) {
    image->image_width = (JDIMENSION) form->width;
    image->image_height = (JDIMENSION) form->height;
    image->input_components = form->planes;
    image->in_color_space = form->planes == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
    jpeg_set_defaults(image);
    set_table(image, 0, form->luma);
    if (form->planes > 1) {
        set_table(image, 1, form->chroma);
        image->comp_info[0].h_samp_factor = form->horizontal;
        image->comp_info[0].v_samp_factor = form->vertical;
    }
    image->dct_method = JDCT_ISLOW;
    image->raw_data_in = TRUE;
    if (form->is_progressive) jpeg_simple_progression(image);
}

static int rounded_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Writes the bands of an image that has been started: each is one row of blocks of the plane with the fewest.
static void write_bands(
    j_compress_ptr image, const megaton_jpeg_form *form, const uint8_t *const *planes, const size_t *strides) {
    // As wide as whole blocks of all planes.
    JSAMPARRAY rows[3] = {NULL, NULL, NULL};
    int widths[3], heights[3], counts[3], padded[3];
    for (int i = 0; i < form->planes; i++) {
        int across = i == 0 ? 1 : form->horizontal, down = i == 0 ? 1 : form->vertical;
        widths[i] = (form->width + across - 1) / across;
        heights[i] = (form->height + down - 1) / down;
        counts[i] = SIDE * image->comp_info[i].v_samp_factor;
        padded[i] = rounded_up(widths[i], SIDE * image->comp_info[i].h_samp_factor);
        rows[i] = (*image->mem->alloc_sarray)(
            (j_common_ptr) image, JPOOL_IMAGE, (JDIMENSION) padded[i], (JDIMENSION) counts[i]);
    }
    for (int band = 0; image->next_scanline < image->image_height; band++) {
        for (int i = 0; i < form->planes; i++) {
            for (int row = 0; row < counts[i]; row++) {
                int y = band * counts[i] + row;
                if (y >= heights[i]) y = heights[i] - 1;
                const uint8_t *source = planes[i] + (size_t) y * strides[i];
                memcpy(rows[i][row], source, (size_t) widths[i]);
                memset(rows[i][row] + widths[i], source[widths[i] - 1], (size_t) (padded[i] - widths[i]));
            }
        }
        jpeg_write_raw_data(image, rows, (JDIMENSION) counts[0]);
    }
}

/// Encodes into the buffer of `encoder`, whose caller frees it: variables of this function would have lost their values
/// after longjmp (C11 section 7.13.2.1). Returns 0, or -1.
static int encode(
    struct encoder *encoder, const megaton_jpeg_form *form, const uint8_t *const *planes, const size_t *strides) {
    j_compress_ptr image = &encoder->image;
    image->err = jpeg_std_error(&encoder->errors);
    image->client_data = encoder;
    encoder->errors.error_exit = fail;
    encoder->errors.emit_message = ignore_warning;
    encoder->errors.output_message = ignore_message;
    if (setjmp(encoder->end)) {
        jpeg_destroy_compress(image);
        return -1;
    }
    jpeg_create_compress(image);
    // jpeg_create_compress clears progress. It keeps client_data, which is set again only to be safe.
    image->client_data = encoder;
    encoder->progress.progress_monitor = check_stop;
    image->progress = &encoder->progress;
    encoder->destination.init_destination = begin_bytes;
    encoder->destination.empty_output_buffer = add_bytes;
    encoder->destination.term_destination = end_bytes;
    image->dest = &encoder->destination;
    describe(image, form);
    jpeg_start_compress(image, TRUE);
    write_bands(image, form, planes, strides);
    jpeg_finish_compress(image);
    jpeg_destroy_compress(image);
    return 0;
}

uint8_t *megaton_jpeg_encode(
    const megaton_jpeg_form *form, const uint8_t *const *planes, const size_t *strides,
    int (*should_stop)(void *context), void *context, size_t *length) {
    struct encoder encoder;
    memset(&encoder, 0, sizeof encoder);
    encoder.should_stop = should_stop;
    encoder.context = context;
    if (encode(&encoder, form, planes, strides) != 0) {
        free(encoder.bytes);
        return NULL;
    }
    *length = encoder.capacity - encoder.destination.free_in_buffer;
    if (form->is_optimized && !form->is_progressive) {
        size_t size;
        uint8_t *recoded = megaton_jpeg_recode(encoder.bytes, *length, &size);
        // Otherwise the image has the usual codes.
        if (recoded != NULL) {
            free(encoder.bytes);
            encoder.bytes = recoded;
            *length = size;
        }
    }
    // A cache counts the bytes, not the buffer.
    uint8_t *fitting = realloc(encoder.bytes, *length);
    return fitting != NULL ? fitting : encoder.bytes;
}
