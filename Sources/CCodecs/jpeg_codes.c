#include "jpeg_codes.h"

#include <stdlib.h>
#include <string.h>

enum {
    /// Longest code (ITU-T T.81 annex C).
    LONGEST = 16,
    /// Bits of a lookup: nearly all codes that occur are shorter.
    LOOKUP = 9,
    SYMBOLS = 256,
    /// Coefficients of a block.
    BLOCK = 64,
    /// DC and AC of luma, and of chroma.
    TABLES = 4,
    /// With which each marker begins (annex B.1.1.2).
    PREFIX = 0xFF,
    BASELINE = 0xC0,
    HUFFMAN = 0xC4,
    START = 0xD8,
    END = 0xD9,
    SCAN = 0xDA,
};

/// Without inlining, the reader and the writer would not stay in registers.
#define INLINE static inline __attribute__((always_inline))

/// A Huffman table.
struct table {
    /// Number of codes of 1 to 16 bits.
    uint8_t counts[LONGEST + 1];
    /// In the order of their codes.
    uint8_t symbols[SYMBOLS];
    int symbol_count;
    /// By symbol; those without a code have a length of 0.
    uint16_t codes[SYMBOLS];
    uint8_t lengths[SYMBOLS];
};

/// Gives the symbols their codes (annex C). Returns 0, or -1 if there are more codes than bits allow.
static int assign_codes(struct table *table) {
    memset(table->lengths, 0, sizeof table->lengths);
    unsigned code = 0;
    int next = 0;
    for (int length = 1; length <= LONGEST; length++) {
        int count = table->counts[length];
        if (code + (unsigned) count > 1u << length || next + count > table->symbol_count) return -1;
        for (int i = 0; i < count; i++) {
            table->codes[table->symbols[next]] = (uint16_t) code++;
            table->lengths[table->symbols[next++]] = (uint8_t) length;
        }
        code <<= 1;
    }
    return next == table->symbol_count ? 0 : -1;
}

// MARK: - In

/// Finds the symbol with whose code 16 bits begin.
struct lookup {
    /// By the first bits: the length of the code times 256, plus its symbol. 0 if the code is longer.
    uint16_t entries[1 << LOOKUP];
    /// For each length: the smallest number of 16 bits that begins with a longer code, and the difference between the
    /// index of a symbol and its code.
    uint32_t ends[LONGEST + 1];
    int offsets[LONGEST + 1];
    const struct table *table;
};

static void make_lookup(struct lookup *lookup, const struct table *table) {
    memset(lookup, 0, sizeof *lookup);
    lookup->table = table;
    unsigned code = 0;
    int next = 0;
    for (int length = 1; length <= LONGEST; length++) {
        lookup->offsets[length] = next - (int) code;
        for (int i = 0; i < table->counts[length]; i++, code++, next++) {
            if (length > LOOKUP) continue;
            uint16_t entry = (uint16_t) (length << 8 | table->symbols[next]);
            int span = 1 << (LOOKUP - length);
            for (int j = 0; j < span; j++) lookup->entries[(int) code * span + j] = entry;
        }
        lookup->ends[length] = code << (LONGEST - length);
        code <<= 1;
    }
}

/// Reads entropy-coded data (annex F.1.2.3), and zeros beyond its end.
struct reader {
    const uint8_t *next, *end;
    /// The next bits from the highest one on, all others zero; and their number.
    uint64_t bits;
    int count;
    /// Bytes from beyond the end.
    int missing;
};

/// Whether a marker may begin in eight bytes (Warren, Hacker's Delight, section 6-1).
INLINE int has_prefix(uint64_t bytes) {
    return ((~bytes - 0x0101010101010101) & bytes & 0x8080808080808080) != 0;
}

/// Reads on if there are fewer than the 27 bits that a symbol and its value have at most.
INLINE void fill(struct reader *reader) {
    if (reader->count >= 27) return;
    if (reader->end - reader->next >= 8) {
        uint64_t bytes;
        memcpy(&bytes, reader->next, sizeof bytes);
        if (!has_prefix(bytes)) {
            reader->bits |= __builtin_bswap64(bytes) >> reader->count;
            int read = (64 - reader->count) / 8;
            reader->next += read;
            reader->count += read * 8;
            // Without bits of the next byte, which is read again.
            if (reader->count < 64) reader->bits &= ~(~0ull >> reader->count);
            return;
        }
    }
    while (reader->count <= 56) {
        uint64_t byte = 0;
        if (reader->next < reader->end) {
            byte = *reader->next++;
            // A zero is stuffed behind it.
            if (byte == PREFIX && reader->next < reader->end) reader->next++;
        } else {
            reader->missing++;
        }
        reader->bits |= byte << (56 - reader->count);
        reader->count += 8;
    }
}

INLINE unsigned take(struct reader *reader, int count) {
    if (count == 0) return 0;
    unsigned bits = (unsigned) (reader->bits >> (64 - count));
    reader->bits <<= count;
    reader->count -= count;
    return bits;
}

/// The next symbol, or -1.
INLINE int take_symbol(struct reader *reader, const struct lookup *lookup) {
    unsigned entry = lookup->entries[reader->bits >> (64 - LOOKUP)];
    if (entry != 0) {
        take(reader, (int) (entry >> 8));
        return (int) (entry & 0xFF);
    }
    uint32_t bits = (uint32_t) (reader->bits >> (64 - LONGEST));
    for (int length = LOOKUP + 1; length <= LONGEST; length++) {
        if (bits >= lookup->ends[length]) continue;
        int index = (int) take(reader, length) + lookup->offsets[length];
        return index >= 0 && index < lookup->table->symbol_count ? lookup->table->symbols[index] : -1;
    }
    return -1;
}

/// A symbol of a scan with the bits behind it.
struct token {
    uint8_t table, symbol;
    uint16_t value;
};

struct scan {
    struct token *tokens, *next, *end;
    /// How often each table's symbols occur.
    uint32_t frequencies[TABLES][SYMBOLS];
};

/// Reads a symbol with at most `largest` bits of a value behind it. Returns the symbol, or -1.
INLINE int read_token(
    struct reader *reader, const struct lookup *lookup, int table, int largest, struct token *token) {
    fill(reader);
    int symbol = take_symbol(reader, lookup);
    if (symbol < 0 || (symbol & 15) > largest) return -1;
    *token = (struct token) {(uint8_t) table, (uint8_t) symbol, (uint16_t) take(reader, symbol & 15)};
    return symbol;
}

/// Reads the symbols of a block (annex F.1.2): one of the table, which is of DC, and the others of the next one.
/// Returns 0, or -1.
static int read_block(struct reader *data, const struct lookup *lookups, int table, struct scan *scan) {
    if (scan->end - scan->next < BLOCK) return -1;
    // Copies, which stay in registers: a token that is written might otherwise have changed them.
    struct reader reader = *data;
    struct token *next = scan->next;
    // Differences of DC have 11 bits, and AC 10 (annex F.1.2.1.2 and F.1.2.2.1).
    int symbol = read_token(&reader, &lookups[table], table, 11, next++);
    if (symbol < 0 || symbol > 11) return -1;
    scan->frequencies[table][symbol]++;
    for (int place = 1; place < BLOCK; place++) {
        symbol = read_token(&reader, &lookups[table + 1], table + 1, 10, next++);
        if (symbol < 0) return -1;
        scan->frequencies[table + 1][symbol]++;
        // All others are zero.
        if (symbol == 0) break;
        if ((symbol & 15) == 0 && symbol != 0xF0) return -1;
        place += symbol >> 4;
        if (place >= BLOCK) return -1;
    }
    *data = reader;
    scan->next = next;
    return 0;
}

/// A file that libjpeg has written.
struct file {
    /// Blocks of luma and of all planes in each unit, and the number of units (annex A.2).
    int luma, blocks;
    size_t units;
    /// Offsets of its first table, of the header of its scan, of the scan's data, and of the end of that.
    size_t tables_start, scan_start, data_start, data_end;
    struct table tables[TABLES];
    int table_count;
};

/// Reads the segment of a baseline frame (annex B.2.2). Returns 0, or -1 for samplings that planes do not have.
static int read_frame(const uint8_t *segment, size_t length, struct file *file) {
    if (length < 6) return -1;
    int height = segment[1] << 8 | segment[2], width = segment[3] << 8 | segment[4], planes = segment[5];
    if ((planes != 1 && planes != 3) || length != (size_t) (6 + 3 * planes) || width == 0 || height == 0) return -1;
    // Chroma has one block in each unit.
    for (int i = 1; i < planes; i++) {
        if (segment[7 + 3 * i] != 0x11) return -1;
    }
    // A scan of one plane has no units of several blocks.
    int across = planes == 1 ? 1 : segment[7] >> 4, down = planes == 1 ? 1 : segment[7] & 15;
    if (across < 1 || across > 2 || down < 1 || down > 2) return -1;
    file->luma = across * down;
    file->blocks = file->luma + planes - 1;
    size_t columns = (size_t) (width + 8 * across - 1) / (size_t) (8 * across);
    file->units = columns * ((size_t) (height + 8 * down - 1) / (size_t) (8 * down));
    return 0;
}

/// Reads the segment of one Huffman table (annex B.2.4.2). Returns 0, or -1.
static int read_table(const uint8_t *segment, size_t length, struct file *file) {
    if (length < 1 + LONGEST) return -1;
    // The class, 0 for DC, is above the number.
    int index = (segment[0] & 15) * 2 + (segment[0] >> 4);
    // In their order, each once.
    if (index != file->table_count || index >= TABLES || (segment[0] >> 4) > 1) return -1;
    struct table *table = &file->tables[index];
    for (int i = 1; i <= LONGEST; i++) {
        table->counts[i] = segment[i];
        table->symbol_count += segment[i];
    }
    if (table->symbol_count > SYMBOLS || length != (size_t) (1 + LONGEST + table->symbol_count)) return -1;
    memcpy(table->symbols, segment + 1 + LONGEST, (size_t) table->symbol_count);
    file->table_count++;
    return assign_codes(table);
}

/// Returns 0, or -1 for anything that libjpeg does not write.
static int read_file(const uint8_t *bytes, size_t length, struct file *file) {
    memset(file, 0, sizeof *file);
    if (length < 4 || bytes[0] != PREFIX || bytes[1] != START) return -1;
    if (bytes[length - 2] != PREFIX || bytes[length - 1] != END) return -1;
    size_t next = 2;
    while (next + 4 <= length && bytes[next] == PREFIX) {
        int marker = bytes[next + 1];
        size_t size = (size_t) bytes[next + 2] << 8 | bytes[next + 3];
        if (size < 2 || next + 2 + size > length - 2) return -1;
        const uint8_t *segment = bytes + next + 4;
        if (marker == SCAN) {
            file->scan_start = next;
            file->data_start = next + 2 + size;
            file->data_end = length - 2;
            return file->units > 0 && file->table_count == (file->blocks > 1 ? TABLES : 2) ? 0 : -1;
        }
        if (marker == HUFFMAN) {
            if (file->table_count == 0) file->tables_start = next;
            if (read_table(segment, size - 2, file) != 0) return -1;
        } else if (file->table_count > 0) {
            return -1;
        } else if (marker == BASELINE && read_frame(segment, size - 2, file) != 0) {
            return -1;
        }
        next += 2 + size;
    }
    return -1;
}

/// Reads all symbols of the data. Returns 0, or -1.
static int read_scan(const uint8_t *bytes, const struct file *file, struct scan *scan) {
    struct lookup lookups[TABLES];
    for (int i = 0; i < file->table_count; i++) make_lookup(&lookups[i], &file->tables[i]);
    struct reader reader = {bytes + file->data_start, bytes + file->data_end, 0, 0, 0};
    for (size_t unit = 0; unit < file->units; unit++) {
        for (int block = 0; block < file->blocks; block++) {
            if (read_block(&reader, lookups, block < file->luma ? 0 : 2, scan) != 0) return -1;
        }
    }
    // All of the data except for the bits that fill the last byte, and none from beyond it.
    int rest = reader.count - 8 * reader.missing;
    return reader.next == reader.end && rest >= 0 && rest < 8 ? 0 : -1;
}

// MARK: - Tables

/// Makes the best table for the frequencies (annex K.2, figures K.1 to K.4), with the choices of libjpeg among equals.
/// Returns 0, or -1 if a code has more bits than figure K.3 shortens.
static int make_table(const uint32_t frequencies[SYMBOLS], struct table *table) {
    enum { LONGEST_FOUND = 32 };
    int symbols[SYMBOLS + 1], lengths[SYMBOLS + 1], others[SYMBOLS + 1], count = 0;
    uint32_t sums[SYMBOLS + 1];
    for (int i = 0; i <= SYMBOLS; i++) {
        // One symbol more, for the code of ones alone, which is not used.
        uint32_t frequency = i == SYMBOLS ? 1 : frequencies[i];
        if (frequency == 0) continue;
        symbols[count] = i;
        sums[count] = frequency;
        lengths[count] = 0;
        others[count++] = -1;
    }
    for (int joined = 1; joined < count; joined++) {
        // The two smallest, and the later ones among equals.
        int first = -1, second = -1;
        for (int i = 0; i < count; i++) {
            if (sums[i] == 0) continue;
            if (first < 0 || sums[i] <= sums[first]) {
                second = first;
                first = i;
            } else if (second < 0 || sums[i] <= sums[second]) {
                second = i;
            }
        }
        sums[first] += sums[second];
        sums[second] = 0;
        int last = first;
        for (;; last = others[last]) {
            lengths[last]++;
            if (others[last] < 0) break;
        }
        others[last] = second;
        for (int i = second; i >= 0; i = others[i]) lengths[i]++;
    }
    int counts[LONGEST_FOUND + 1] = {0};
    for (int i = 0; i < count; i++) {
        if (lengths[i] > LONGEST_FOUND) return -1;
        counts[lengths[i]]++;
    }
    for (int length = LONGEST_FOUND; length > LONGEST; length--) {
        while (counts[length] > 0) {
            int shorter = length - 2;
            while (counts[shorter] == 0) shorter--;
            counts[length] -= 2;
            counts[length - 1]++;
            counts[shorter + 1] += 2;
            counts[shorter]--;
        }
    }
    int longest = LONGEST;
    while (longest > 0 && counts[longest] == 0) longest--;
    counts[longest]--;
    for (int length = 1; length <= LONGEST; length++) table->counts[length] = (uint8_t) counts[length];
    table->symbol_count = 0;
    for (int length = 1; length <= LONGEST_FOUND; length++) {
        for (int i = 0; i < count; i++) {
            if (lengths[i] != length || symbols[i] == SYMBOLS) continue;
            table->symbols[table->symbol_count++] = (uint8_t) symbols[i];
        }
    }
    return assign_codes(table);
}

// MARK: - Out

struct writer {
    uint8_t *next, *end;
    /// Bits that are not written yet, from the highest one on, all others zero; and their number.
    uint64_t bits;
    int count;
};

/// Room that `flush` needs: for 64 bits that are all prefixes of markers.
enum { FLUSHED = 16 };

/// Appends bytes. Returns 0, or -1 if there is no room.
static int put_bytes(struct writer *writer, const uint8_t *bytes, size_t count) {
    if ((size_t) (writer->end - writer->next) < count) return -1;
    memcpy(writer->next, bytes, count);
    writer->next += count;
    return 0;
}

/// Writes the segment of a table. Returns 0, or -1 if there is no room.
static int put_table(struct writer *writer, const struct table *table, int index) {
    int size = 2 + 1 + LONGEST + table->symbol_count;
    uint8_t head[] = {
        PREFIX, HUFFMAN, (uint8_t) (size >> 8), (uint8_t) size, (uint8_t) ((index & 1) << 4 | index >> 1)};
    if (put_bytes(writer, head, sizeof head) != 0 || put_bytes(writer, table->counts + 1, LONGEST) != 0) return -1;
    return put_bytes(writer, table->symbols, (size_t) table->symbol_count);
}

/// Writes the whole bytes, each 0xFF with a zero behind it. Returns 0, or -1 if there is no room.
INLINE int flush(struct writer *writer) {
    if (writer->end - writer->next < FLUSHED) return -1;
    if (!has_prefix(writer->bits)) {
        uint64_t bytes = __builtin_bswap64(writer->bits);
        memcpy(writer->next, &bytes, sizeof bytes);
        int whole = writer->count / 8;
        writer->next += whole;
        writer->bits = whole < 8 ? writer->bits << whole * 8 : 0;
        writer->count -= whole * 8;
        return 0;
    }
    while (writer->count >= 8) {
        uint8_t byte = (uint8_t) (writer->bits >> 56);
        writer->bits <<= 8;
        writer->count -= 8;
        *writer->next++ = byte;
        if (byte == PREFIX) *writer->next++ = 0;
    }
    return 0;
}

/// Writes all symbols. Returns 0, or -1 if there is no room.
static int put_scan(struct writer *target, const struct scan *scan, const struct table *tables) {
    // A copy, which stays in registers.
    struct writer writer = *target;
    for (const struct token *next = scan->tokens; next < scan->next; next++) {
        struct token token = *next;
        const struct table *table = &tables[token.table];
        int size = token.symbol & 15, length = table->lengths[token.symbol] + size;
        uint64_t bits = (uint64_t) table->codes[token.symbol] << size | token.value;
        writer.bits |= bits << (64 - writer.count - length);
        writer.count += length;
        // The next ones are 27 bits at most.
        if (writer.count > 36 && flush(&writer) != 0) return -1;
    }
    // Ones up to the end of the byte (annex F.1.2.3).
    int rest = (8 - writer.count % 8) % 8;
    if (rest > 0) writer.bits |= ((1ull << rest) - 1) << (64 - writer.count - rest);
    writer.count += rest;
    if (flush(&writer) != 0) return -1;
    *target = writer;
    return 0;
}

/// Returns 0, or -1 if there is no room.
static int put_file(
    const uint8_t *bytes, size_t length, const struct file *file, const struct scan *scan, struct writer *writer) {
    struct table tables[TABLES];
    if (put_bytes(writer, bytes, file->tables_start) != 0) return -1;
    for (int i = 0; i < file->table_count; i++) {
        if (make_table(scan->frequencies[i], &tables[i]) != 0 || put_table(writer, &tables[i], i) != 0) return -1;
    }
    if (put_bytes(writer, bytes + file->scan_start, file->data_start - file->scan_start) != 0) return -1;
    if (put_scan(writer, scan, tables) != 0) return -1;
    return put_bytes(writer, bytes + file->data_end, length - file->data_end);
}

uint8_t *megaton_jpeg_recode(const uint8_t *bytes, size_t length, size_t *size) {
    struct file file;
    if (read_file(bytes, length, &file) != 0) return NULL;
    struct scan scan;
    memset(&scan, 0, sizeof scan);
    // No usual code has less than two bits, and no block has more symbols than coefficients.
    size_t most = (file.data_end - file.data_start) * 4 + BLOCK, all = file.units * (size_t) file.blocks * BLOCK;
    size_t capacity = all < most ? all : most;
    scan.tokens = malloc(capacity * sizeof *scan.tokens);
    uint8_t *made = malloc(length + FLUSHED);
    int failed = scan.tokens == NULL || made == NULL;
    if (!failed) {
        scan.next = scan.tokens;
        scan.end = scan.tokens + capacity;
        struct writer writer = {made, made + length + FLUSHED, 0, 0};
        failed = read_scan(bytes, &file, &scan) != 0 || put_file(bytes, length, &file, &scan, &writer) != 0;
        *size = (size_t) (writer.next - made);
    }
    free(scan.tokens);
    if (failed || *size > length) {
        free(made);
        return NULL;
    }
    return made;
}
