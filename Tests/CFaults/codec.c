// A codec with a bug: opening an image that contains the text of the environment variable MEGATON_CRASH writes through
// a null pointer, as hostile images have caused in real codecs. All other images are passed on to libvips.
#define _GNU_SOURCE

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *mark;

// Runs before main, and so before there are threads.
__attribute__((constructor)) static void read_mark(void) {
    const char *text = getenv("MEGATON_CRASH");
    if (text && *text) mark = text;
}

const char *vips_foreign_find_load_buffer(const void *data, size_t size);

const char *vips_foreign_find_load_buffer(const void *data, size_t size) {
    if (mark && memmem(data, size, mark, strlen(mark))) *(volatile int *) NULL = 0;
    const char *(*next)(const void *, size_t) = dlsym(RTLD_NEXT, "vips_foreign_find_load_buffer");
    return next(data, size);
}
