// Orc compiles the inner loops of libvips at run time. Until 0.4.33 at least, `orc_program_free` changes Orc's list of
// code blocks without the lock that `orc_program_compile` holds: two renders that end at once can free a block twice or
// use a freed one, which crashes the process. One lock around both functions prevents that.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

// Not Orc's own lock, which a later version may take within `orc_program_free`. Orc takes its own only while this one
// is held, so that they cannot wait for each other.
static pthread_mutex_t programs = PTHREAD_MUTEX_INITIALIZER;

// ORC_COMPILE_RESULT_UNKNOWN_COMPILE: libvips then uses its loops in C.
enum { CANNOT_COMPILE = 0x100 };

// Both replace Orc's functions for libvips, as an executable's symbols come before those of shared libraries (ELF gABI,
// symbol resolution). Weak, so that an Orc that is linked statically keeps its own.
__attribute__((weak, visibility("default"))) int orc_program_compile(void *program) {
    static int (*original)(void *);
    pthread_mutex_lock(&programs);
    if (original == NULL) original = (int (*)(void *)) dlsym(RTLD_NEXT, "orc_program_compile");
    int result = original == NULL ? CANNOT_COMPILE : original(program);
    pthread_mutex_unlock(&programs);
    return result;
}

__attribute__((weak, visibility("default"))) void orc_program_free(void *program) {
    static void (*original)(void *);
    pthread_mutex_lock(&programs);
    if (original == NULL) original = (void (*)(void *)) dlsym(RTLD_NEXT, "orc_program_free");
    if (original != NULL) original(program);
    pthread_mutex_unlock(&programs);
}
