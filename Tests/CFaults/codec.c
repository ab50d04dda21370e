// A codec with a bug: a picture that contains MEGATON-CRASH writes through a null pointer while it is opened, as hostile
// pictures have done to every codec there is. All others go to libvips, and are none the wiser.
#define _GNU_SOURCE
#include "CFaults.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char mark[] = "MEGATON-CRASH";

const char *vips_foreign_find_load_buffer(const void *data, size_t size);

const char *vips_foreign_find_load_buffer(const void *data, size_t size) {
    if (memmem(data, size, mark, sizeof mark - 1)) *(volatile int *) NULL = 0;
    const char *(*next)(const void *, size_t) = dlsym(RTLD_NEXT, "vips_foreign_find_load_buffer");
    return next(data, size);
}
