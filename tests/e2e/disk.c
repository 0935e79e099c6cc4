/* A disk in trouble: calls on files below $DISK_LOG fail as the file $DISK_TROUBLE says, "write 28"
   or "sync 5" or "all 30": what fails, and with which errno. "half 28": half of what is to be written
   gets there, and the rest fails. "read 5": nothing can be read. Without the file nothing fails.
   Loaded into a router with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int below_log(int fd) {
    const char *log = getenv("DISK_LOG");
    char link[64], path[PATH_MAX];
    sprintf(link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!log || length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, log, strlen(log));
}

static int fails(int fd, const char *what) {
    const char *trouble = getenv("DISK_TROUBLE");
    char failing[16];
    int number = 0, saved = errno, found = 0;
    FILE *told = trouble ? fopen(trouble, "r") : NULL;
    if (told) {
        if (fscanf(told, "%15s %d", failing, &number) == 2)
            found = (!strcmp(failing, what) || !strcmp(failing, "all")) && below_log(fd);
        fclose(told);
    }
    errno = found ? number : saved;
    return found;
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

/* How many bytes of this write get there, before the next one fails; -1: it is to be done whole. */
static __thread int torn;

static ssize_t part(int fd, size_t count) {
    if (!fails(fd, "half")) return -1;
    torn = !torn;
    return torn ? (ssize_t)(count / 2) : 0;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    ssize_t half = part(fd, count);
    if (half == 0 || fails(fd, "write")) return -1;
    if (half > 0) count = half;
    return REAL("pwrite", ssize_t (*)(int, const void *, size_t, off_t))(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    ssize_t half = part(fd, count);
    if (half == 0 || fails(fd, "write")) return -1;
    if (half > 0) count = half;
    return REAL("pwrite64", ssize_t (*)(int, const void *, size_t, off64_t))(fd, bytes, count, at);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at) {
    if (fails(fd, "read")) return -1;
    return REAL("pread", ssize_t (*)(int, void *, size_t, off_t))(fd, bytes, count, at);
}

ssize_t pread64(int fd, void *bytes, size_t count, off64_t at) {
    if (fails(fd, "read")) return -1;
    return REAL("pread64", ssize_t (*)(int, void *, size_t, off64_t))(fd, bytes, count, at);
}

int fsync(int fd) {
    return fails(fd, "sync") ? -1 : REAL("fsync", int (*)(int))(fd);
}

int fdatasync(int fd) {
    return fails(fd, "sync") ? -1 : REAL("fdatasync", int (*)(int))(fd);
}
