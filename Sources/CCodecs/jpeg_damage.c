#include "jpeg_damage.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
// jpeglib.h needs size_t and FILE.
#include <jpeglib.h>
#include <jerror.h>

/// Bytes that libjpeg gets at a time. If it has 512 for each block of an MCU or more, libjpeg-turbo reads Huffman codes
/// by a faster path, which takes an impossible code for a zero and does not warn (`decode_mcu_fast` of its jdhuff.c).
#define PIECE 256

/// The data in pieces.
struct pieces {
    struct jpeg_source_mgr manager;
    const unsigned char *next;
    size_t left;
};

struct examination {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct pieces pieces;
    jmp_buf end;
    int (*should_stop)(void *context);
    void *context;
    megaton_jpeg_report *report;
    int has_all_rows;
};

static struct examination *of(j_common_ptr codec) { return (struct examination *) codec->client_data; }

/// Returns whether the damage is the worst so far.
static int note(j_common_ptr codec, megaton_jpeg_damage damage) {
    megaton_jpeg_report *report = of(codec)->report;
    if (damage <= report->worst) return 0;
    report->worst = damage;
    char text[JMSG_LENGTH_MAX];
    codec->err->format_message(codec, text);
    snprintf(report->text, sizeof report->text, "%s", text);
    j_decompress_ptr image = (j_decompress_ptr) codec;
    report->row = -1;
    report->is_in_scan = codec->is_decompressor && image->input_scan_number > 0;
    if (codec->is_decompressor && !image->progressive_mode && image->output_height > 0
        && !of(codec)->has_all_rows) {
        report->row = (int) ((long) image->output_scanline * (long) image->image_height / (long) image->output_height);
    }
    return 1;
}

static void ended(j_common_ptr codec) {
    if (codec->err->msg_code == JERR_OUT_OF_MEMORY) {
        of(codec)->report->worst = MEGATON_JPEG_NO_MEMORY;
        longjmp(of(codec)->end, 1);
    }
    // Damage after the last row affects no pixel.
    note(codec, of(codec)->has_all_rows ? MEGATON_JPEG_WARNING : MEGATON_JPEG_FATAL);
    longjmp(of(codec)->end, 1);
}

/// Whether arithmetic-coded data certainly ended early. libjpeg continues such a scan with zeros at the end of its data
/// and does not warn, because encoders omit trailing zeros (ITU-T T.81 D.1.8), in some whole images thousands of bytes.
/// The number of zeros is therefore no evidence. But a whole scan never reaches an impossible code after its data, and
/// never lacks a restart marker.
static int ends_early(j_decompress_ptr image) {
    if (!image->arith_code) return 0;
    int marker = image->err->msg_code == JWRN_MUST_RESYNC ? image->err->msg_parm.i[0] : image->unread_marker;
    return marker >= 0xC0 && !(marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7);
}

/// Whether coefficients of a progressive image still lack bits: scans are missing, of which libjpeg does not warn.
static int lacks_scans(j_decompress_ptr image) {
    if (!image->progressive_mode) return 0;
    if (image->coef_bits == NULL) return 1;
    for (int component = 0; component < image->num_components; component++) {
        for (int i = 0; i < DCTSIZE2; i++) if (image->coef_bits[component][i] != 0) return 1;
    }
    return 0;
}

static void warned(j_common_ptr codec, int level) {
    if (level >= 0) return;
    codec->err->num_warnings++;
    switch (codec->err->msg_code) {
    case JWRN_JPEG_EOF:
        // A missing end-of-image marker affects no pixel. libjpeg reads ahead: if a Huffman-coded row lacks data, it
        // warns of that later, and of arithmetic-coded data it does not.
        if (!of(codec)->has_all_rows
            && (((j_decompress_ptr) codec)->arith_code || lacks_scans((j_decompress_ptr) codec))) {
            note(codec, MEGATON_JPEG_TRUNCATED);
        } else if (note(codec, MEGATON_JPEG_WARNING)) {
            of(codec)->report->row = -1;
        }
        break;
    case JWRN_HIT_MARKER: note(codec, MEGATON_JPEG_TRUNCATED); break;
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        note(codec, ends_early((j_decompress_ptr) codec) ? MEGATON_JPEG_TRUNCATED : MEGATON_JPEG_ERROR);
        break;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_NOT_SEQUENTIAL: note(codec, MEGATON_JPEG_ERROR); break;
    default: note(codec, MEGATON_JPEG_WARNING);
    }
}

static void ignore_message(j_common_ptr codec) { (void) codec; }

static void begin_source(j_decompress_ptr image) { (void) image; }

static void end_source(j_decompress_ptr image) { (void) image; }

static boolean next_piece(j_decompress_ptr image) {
    static const JOCTET end[] = {0xFF, JPEG_EOI};
    struct pieces *pieces = (struct pieces *) image->src;
    if (pieces->left == 0) {
        // As from libjpeg's own sources.
        WARNMS(image, JWRN_JPEG_EOF);
        pieces->manager.next_input_byte = end;
        pieces->manager.bytes_in_buffer = sizeof end;
        return TRUE;
    }
    size_t count = pieces->left < PIECE ? pieces->left : PIECE;
    pieces->manager.next_input_byte = pieces->next;
    pieces->manager.bytes_in_buffer = count;
    pieces->next += count;
    pieces->left -= count;
    return TRUE;
}

static void skip_bytes(j_decompress_ptr image, long count) {
    if (count <= 0) return;
    struct pieces *pieces = (struct pieces *) image->src;
    size_t wanted = (size_t) count;
    size_t given = pieces->manager.bytes_in_buffer < wanted ? pieces->manager.bytes_in_buffer : wanted;
    pieces->manager.next_input_byte += given;
    pieces->manager.bytes_in_buffer -= given;
    wanted -= given;
    size_t further = pieces->left < wanted ? pieces->left : wanted;
    pieces->next += further;
    pieces->left -= further;
}

static void check_stop(j_common_ptr codec) {
    struct examination *examination = of(codec);
    if (!examination->should_stop(examination->context)) return;
    examination->report->worst = MEGATON_JPEG_STOPPED;
    longjmp(examination->end, 1);
}

/// Decodes all data. Its caller keeps `examination` and `image`: variables of this function would have lost their
/// values after longjmp (C11 section 7.13.2.1).
static void decode(
    struct examination *examination, j_decompress_ptr image, const unsigned char *bytes, size_t length) {
    image->err = jpeg_std_error(&examination->errors);
    image->client_data = examination;
    examination->errors.error_exit = ended;
    examination->errors.emit_message = warned;
    examination->errors.output_message = ignore_message;
    examination->progress.progress_monitor = check_stop;
    if (setjmp(examination->end)) {
        jpeg_destroy_decompress(image);
        return;
    }
    jpeg_create_decompress(image);
    // jpeg_create_decompress clears progress. It keeps client_data, which is set again only to be safe.
    image->client_data = examination;
    image->progress = &examination->progress;
    examination->pieces = (struct pieces) {
        .manager = {
            .init_source = begin_source,
            .fill_input_buffer = next_piece,
            .skip_input_data = skip_bytes,
            .resync_to_restart = jpeg_resync_to_restart,
            .term_source = end_source,
        },
        .next = bytes,
        .left = length,
    };
    image->src = &examination->pieces.manager;
    jpeg_read_header(image, TRUE);
    examination->report->rows = (int) image->image_height;
    // The cheapest decode of all data: no color conversion, no interpolation, one sample for each block.
    image->out_color_space = image->jpeg_color_space;
    image->scale_num = 1;
    image->scale_denom = 8;
    image->dct_method = JDCT_IFAST;
    image->do_fancy_upsampling = FALSE;
    image->do_block_smoothing = FALSE;
    jpeg_start_decompress(image);
    JSAMPARRAY row = (*image->mem->alloc_sarray)(
        (j_common_ptr) image, JPOOL_IMAGE, image->output_width * (JDIMENSION) image->output_components, 1);
    while (image->output_scanline < image->output_height) {
        jpeg_read_scanlines(image, row, 1);
        check_stop((j_common_ptr) image);
    }
    examination->has_all_rows = 1;
    jpeg_finish_decompress(image);
    jpeg_destroy_decompress(image);
}

void megaton_jpeg_examine(
    const unsigned char *bytes, size_t length, int (*should_stop)(void *context), void *context,
    megaton_jpeg_report *report) {
    memset(report, 0, sizeof *report);
    report->row = -1;
    struct examination examination = {.should_stop = should_stop, .context = context, .report = report};
    struct jpeg_decompress_struct image;
    memset(&image, 0, sizeof image);
    decode(&examination, &image, bytes, length);
}
