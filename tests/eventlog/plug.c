/* What a disk holds once the plug is pulled, at its worst: each file of $PLUG_LOG as it was at its
   last fsync, under the names that the last fsync of the directory made safe. Kept in $PLUG_KEPT.
   Loaded into a writer with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int describe(int dirfd, const char *name, int flags, struct statx *into, char *key) {
    if (statx(dirfd, name, flags, STATX_BASIC_STATS | STATX_BTIME, into)) return -1;
    /* with the time of birth: inode numbers are used again */
    sprintf(key, "%llu-%lld-%u", (unsigned long long)into->stx_ino,
            (long long)into->stx_btime.tv_sec, into->stx_btime.tv_nsec);
    return 0;
}

static void keep_names(const char *path, const char *draft) {
    FILE *out = fopen(draft, "w");
    DIR *directory = opendir(path);
    struct dirent *entry;
    struct statx about;
    char key[128];
    while (out && directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && !describe(dirfd(directory), entry->d_name, 0, &about, key) &&
            S_ISREG(about.stx_mode))
            fprintf(out, "%s %s\n", entry->d_name, key);
    if (directory) closedir(directory);
    if (out) fclose(out);
}

static void keep_bytes(const char *path, const char *draft) {
    char buffer[1 << 16];
    ssize_t got;
    int from = open(path, O_RDONLY), to = open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while (from >= 0 && to >= 0 && (got = read(from, buffer, sizeof buffer)) > 0)
        if (write(to, buffer, got) != got) abort();
    if (from >= 0) close(from);
    if (to >= 0) close(to);
}

static void keep(int fd) {
    const char *log = getenv("PLUG_LOG"), *kept = getenv("PLUG_KEPT");
    char link[64], path[PATH_MAX], draft[PATH_MAX], place[PATH_MAX], key[128];
    struct statx about;
    ssize_t length;
    sprintf(link, "/proc/self/fd/%d", fd);
    if (!log || !kept || (length = readlink(link, path, sizeof path - 1)) < 0) return;
    path[length] = 0;
    if (strncmp(path, log, strlen(log)) || describe(fd, "", AT_EMPTY_PATH, &about, key)) return;
    int names = S_ISDIR(about.stx_mode);
    snprintf(draft, sizeof draft, "%s/draft", kept);
    snprintf(place, sizeof place, "%s/%s", kept, names ? "names" : key);
    if (names) keep_names(path, draft); else keep_bytes(path, draft);
    rename(draft, place);
}

int fsync(int fd) {
    int failed = ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
    if (!failed) keep(fd);
    return failed;
}

int fdatasync(int fd) {
    int failed = ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
    if (!failed) keep(fd);
    return failed;
}
