// A wall clock that steps: it differs from the machine's by the offset in the file MEGATON_CLOCK, in milliseconds,
// eight bytes in this machine's byte order. A write to the file steps the clock. Monotonic clocks are not changed, as
// when a machine's clock is set.
//
// For redis-server and for a worker. Nothing here allocates, because an allocator may ask for the time.
#define _GNU_SOURCE

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

// Runs before main, and so before there are threads.
__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("MEGATON_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) offset = map;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t all = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *offset * INT64_C(1000000);
        now->tv_sec = all / INT64_C(1000000000);
        now->tv_nsec = all % INT64_C(1000000000);
    }
    return (int) result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void) zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
