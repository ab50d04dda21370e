// libvips has one error buffer for all threads, and reports many reasons only as GLib warnings. This file collects both
// per thread: each thread has the messages of the image that it works on.
#define _GNU_SOURCE
#include "messages.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vips/vips.h>

enum { CAPACITY = 2048, LINE = 512 };

struct lines {
    char text[CAPACITY];
    size_t length;
};

struct megaton_messages {
    atomic_int references;
    pthread_mutex_t lock;
    struct lines errors, warnings;
};

static _Thread_local megaton_messages *current;

megaton_messages *megaton_messages_new(void) {
    megaton_messages *messages = calloc(1, sizeof *messages);
    if (messages == NULL) return NULL;
    atomic_init(&messages->references, 1);
    pthread_mutex_init(&messages->lock, NULL);
    return messages;
}

static void ref(megaton_messages *messages) { atomic_fetch_add(&messages->references, 1); }

void megaton_messages_unref(megaton_messages *messages) {
    if (atomic_fetch_sub(&messages->references, 1) > 1) return;
    pthread_mutex_destroy(&messages->lock);
    free(messages);
}

megaton_messages *megaton_messages_enter(megaton_messages *messages) {
    megaton_messages *previous = current;
    current = messages;
    return previous;
}

megaton_messages *megaton_messages_current(void) { return current; }

/// Whether a text of lines has one, which ends with a line feed.
static int has_line(const char *text, const char *line) {
    for (const char *found = strstr(text, line); found != NULL; found = strstr(found + 1, line)) {
        if (found == text || found[-1] == '\n') return 1;
    }
    return 0;
}

// Skips lines that are present already, because some codecs warn about each row.
static void add(megaton_messages *messages, struct lines *lines, const char *line) {
    size_t length = strnlen(line, LINE);
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == ' ')) length--;
    if (length == 0) return;
    char whole[LINE + 2];
    snprintf(whole, sizeof whole, "%.*s\n", (int) length, line);
    for (size_t i = 0; i < length; i++) if (whole[i] == '\n') whole[i] = ' ';
    pthread_mutex_lock(&messages->lock);
    if (lines->length + length + 2 <= CAPACITY && !has_line(lines->text, whole)) {
        memcpy(lines->text + lines->length, whole, length + 2);
        lines->length += length + 1;
    }
    pthread_mutex_unlock(&messages->lock);
}

static size_t copy(megaton_messages *messages, struct lines *lines, char *text, size_t capacity) {
    pthread_mutex_lock(&messages->lock);
    size_t length = lines->length < capacity ? lines->length : capacity - 1;
    memcpy(text, lines->text, length);
    pthread_mutex_unlock(&messages->lock);
    text[length] = 0;
    return length;
}

size_t megaton_messages_errors(megaton_messages *messages, char *text, size_t capacity) {
    return copy(messages, &messages->errors, text, capacity);
}

size_t megaton_messages_warnings(megaton_messages *messages, char *text, size_t capacity) {
    return copy(messages, &messages->warnings, text, capacity);
}

// MARK: - Capturing libvips' messages

// Overrides libvips' own function, through which all its errors pass: symbols of the executable take precedence over
// those of shared libraries (ELF gABI, symbol resolution). Weak, so that a statically linked libvips keeps its own. If
// the override is not called, the messages stay empty and callers fall back to the shared buffer.
__attribute__((weak, visibility("default"))) void vips_verror(const char *domain, const char *format, va_list values) {
    if (current == NULL) {
        void (*original)(const char *, const char *, va_list) =
            (void (*)(const char *, const char *, va_list)) dlsym(RTLD_NEXT, "vips_verror");
        if (original != NULL) original(domain, format, values);
        return;
    }
    char line[LINE];
    int start = domain == NULL ? 0 : snprintf(line, sizeof line, "%.64s: ", domain);
    vsnprintf(line + start, sizeof line - (size_t) start, format, values);
    add(current, &current->errors, line);
}

static void hear(const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data) {
    (void) domain, (void) data;
    if (current != NULL && (level & G_LOG_LEVEL_WARNING) && message != NULL) {
        add(current, &current->warnings, message);
    }
}

void megaton_messages_start(void) {
    g_log_set_handler("VIPS", G_LOG_LEVEL_WARNING | G_LOG_LEVEL_INFO | G_LOG_LEVEL_DEBUG, hear, NULL);
}

// MARK: - Threads of libvips

static int generate(VipsRegion *out, void *sequence, void *a, void *b, gboolean *stop) {
    (void) a, (void) stop;
    VipsRegion *in = sequence;
    // The thread that requests a region computes it together with all its inputs.
    megaton_messages *previous = megaton_messages_enter(b);
    int result = vips_region_prepare(in, &out->valid)
        || vips_region_region(out, in, &out->valid, out->valid.left, out->valid.top);
    megaton_messages_enter(previous);
    return result ? -1 : 0;
}

int megaton_messages_tap(void *image, void **out) {
    *out = NULL;
    if (current == NULL) {
        *out = g_object_ref(image);
        return 0;
    }
    VipsImage *tap = vips_image_new();
    // Both references live as long as the tap.
    g_object_set_data_full(G_OBJECT(tap), "megaton-image", g_object_ref(image), g_object_unref);
    ref(current);
    g_object_set_data_full(G_OBJECT(tap), "megaton-messages", current, (GDestroyNotify) megaton_messages_unref);
    if (vips_image_pipelinev(tap, VIPS_DEMAND_STYLE_ANY, (VipsImage *) image, NULL)
        || vips_image_generate(tap, vips_start_one, generate, vips_stop_one, image, current)) {
        g_object_unref(tap);
        return -1;
    }
    *out = tap;
    return 0;
}
