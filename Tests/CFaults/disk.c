// A full disk: files beneath the directory MEGATON_DISK accept MEGATON_ROOM bytes of each process, and no more. A write
// for which only part of the room is left is a short write, as by the kernel.
#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *directory;
static atomic_long room;

// Runs before main, and so before there are threads.
__attribute__((constructor)) static void read_room(void) {
    const char *text = getenv("MEGATON_ROOM");
    if (text) atomic_store(&room, atol(text));
    directory = getenv("MEGATON_DISK");
}

static int is_beneath(int file) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    size_t size = strlen(directory);
    return strncmp(path, directory, size) == 0 && path[size] == '/';
}

// The part of a write for which there is room; -1 with errno set if there is none.
static long admitted(int file, size_t size) {
    if (!directory || !is_beneath(file)) return (long) size;
    long left = atomic_load(&room);
    size_t part = left < 0 ? 0 : (size_t) left < size ? (size_t) left : size;
    if (part > 0 || size == 0) return (long) part;
    errno = ENOSPC;
    return -1;
}

static ssize_t counted(int file, ssize_t count) {
    if (count > 0 && directory && is_beneath(file)) atomic_fetch_sub(&room, count);
    return count;
}

ssize_t write(int file, const void *data, size_t size) {
    long part = admitted(file, size);
    return part < 0 ? -1 : counted(file, syscall(SYS_write, file, data, (size_t) part));
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    long part = admitted(file, size);
    return part < 0 ? -1 : counted(file, syscall(SYS_pwrite64, file, data, (size_t) part, offset));
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) { return pwrite(file, data, size, offset); }
