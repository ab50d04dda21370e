// A codec with bugs: opening an image that contains the text of the environment variable MEGATON_CRASH writes through a
// null pointer, and one with the text of MEGATON_HANG never ends, as hostile images have caused in real codecs. All
// other images are passed on to libvips.
#define _GNU_SOURCE

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *crash, *hang;

static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

// Runs before main, and so before there are threads.
__attribute__((constructor)) static void read_marks(void) {
    crash = text_of("MEGATON_CRASH");
    hang = text_of("MEGATON_HANG");
}

const char *vips_foreign_find_load_buffer(const void *data, size_t size);

const char *vips_foreign_find_load_buffer(const void *data, size_t size) {
    if (crash && memmem(data, size, crash, strlen(crash))) *(volatile int *) NULL = 0;
    while (hang && memmem(data, size, hang, strlen(hang))) pause();
    const char *(*next)(const void *, size_t) = dlsym(RTLD_NEXT, "vips_foreign_find_load_buffer");
    return next(data, size);
}
