#include "coefficients.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
// jpeglib.h needs size_t and FILE.
#include <jpeglib.h>

struct errors {
    struct jpeg_error_mgr base;
    jmp_buf end;
};

static void end(j_common_ptr codec) { longjmp(((struct errors *) codec->err)->end, 1); }
static void print_nothing(j_common_ptr codec) { (void) codec; }
static void count_warning(j_common_ptr codec, int level) {
    if (level < 0) codec->err->num_warnings++;
}

static int write_blocks(
    j_decompress_ptr codec, jvirt_barray_ptr *arrays, int16_t *output, size_t capacity, size_t *count
) {
    // Zigzag order 0, 1, 2 and 4.
    static const int places[] = {0, 1, 8, 9};
    unsigned across = 8 * codec->comp_info[0].h_samp_factor, down = 8 * codec->comp_info[0].v_samp_factor;
    unsigned columns = (codec->image_width + across - 1) / across, rows = (codec->image_height + down - 1) / down;
    for (int index = 0; index < codec->num_components; index++) {
        jpeg_component_info *component = codec->comp_info + index;
        for (unsigned row = 0; row < rows * component->v_samp_factor; row++) {
            JBLOCKARRAY blocks = codec->mem->access_virt_barray((j_common_ptr) codec, arrays[index], row, 1, FALSE);
            for (unsigned column = 0; column < columns * component->h_samp_factor; column++) {
                if (*count + 4 > capacity) return -3;
                for (int place = 0; place < 4; place++) output[(*count)++] = blocks[0][column][places[place]];
            }
        }
    }
    return 0;
}

int megaton_low_coefficients(const uint8_t *bytes, size_t length, int16_t *output, size_t capacity, size_t *count) {
    struct jpeg_decompress_struct codec;
    struct errors errors;
    *count = 0;
    codec.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = end;
    errors.base.output_message = print_nothing;
    errors.base.emit_message = count_warning;
    if (setjmp(errors.end)) {
        jpeg_destroy_decompress(&codec);
        return -1;
    }
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, bytes, length);
    jpeg_read_header(&codec, TRUE);
    int result = -2;
    if (codec.num_components == 1 || codec.num_components == 3) {
        jvirt_barray_ptr *arrays = jpeg_read_coefficients(&codec);
        result = write_blocks(&codec, arrays, output, capacity, count);
        if (result == 0) {
            jpeg_finish_decompress(&codec);
            result = (int) errors.base.num_warnings;
        }
    }
    jpeg_destroy_decompress(&codec);
    return result;
}

int megaton_progressive_jpeg(
    const uint8_t *bytes, size_t length, const struct megaton_scan *scans, int count, unsigned restart_interval,
    uint8_t *output, size_t capacity, size_t *written
) {
    struct jpeg_decompress_struct reader;
    struct jpeg_compress_struct writer;
    struct errors errors;
    jpeg_scan_info script[MEGATON_MAX_SCANS];
    // libjpeg replaces it by memory of its own if it is too small.
    unsigned char *memory = output;
    unsigned long size = capacity;
    *written = 0;
    if (count > MEGATON_MAX_SCANS) return -2;
    for (int index = 0; index < count; index++) {
        jpeg_scan_info *scan = script + index;
        scan->comps_in_scan = scans[index].component < 0 ? 3 : 1;
        for (int place = 0; place < 3; place++) scan->component_index[place] = place;
        if (scans[index].component >= 0) scan->component_index[0] = scans[index].component;
        scan->Ss = scans[index].first;
        scan->Se = scans[index].last;
        scan->Ah = scans[index].bits_before;
        scan->Al = scans[index].missing_bits;
    }
    reader.err = writer.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = end;
    errors.base.output_message = print_nothing;
    jpeg_create_decompress(&reader);
    jpeg_create_compress(&writer);
    int result = -1;
    if (!setjmp(errors.end)) {
        jpeg_mem_src(&reader, bytes, length);
        jpeg_read_header(&reader, TRUE);
        jvirt_barray_ptr *arrays = jpeg_read_coefficients(&reader);
        jpeg_mem_dest(&writer, &memory, &size);
        jpeg_copy_critical_parameters(&reader, &writer);
        writer.scan_info = script;
        writer.num_scans = count;
        writer.restart_interval = restart_interval;
        jpeg_write_coefficients(&writer, arrays);
        jpeg_finish_compress(&writer);
        jpeg_finish_decompress(&reader);
        result = memory == output ? 0 : -3;
        if (memory == output) *written = size;
        else free(memory);
    }
    jpeg_destroy_compress(&writer);
    jpeg_destroy_decompress(&reader);
    return result;
}
