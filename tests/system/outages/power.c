// Preloaded: notes of the files and folders below $POWER_ROOT what was synced, in $POWER_NOTES, so that a power cut can
// take all else. A file's note is its content when it was synced last, a folder's is its entries then. Notes are called
// by inode and time of birth, for inodes are used again.
//
// A machine that starts again has another boot id, which this process reads from $POWER_NOTES/boot_id.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static const char *root, *notes;

__attribute__((constructor)) static void read_environment(void) {
    root = getenv("POWER_ROOT");
    notes = getenv("POWER_NOTES");
}

static int name_of(int folder, const char *path, char *name, struct statx *found) {
    if (statx(folder, path, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_ALL, found)) return -1;
    sprintf(name, "%llu-%lld-%u", (unsigned long long)found->stx_ino, (long long)found->stx_btime.tv_sec,
            found->stx_btime.tv_nsec);
    return 0;
}

// The file is read by its own descriptor wherever that can be: closing another one of the same file would release the
// locks that SQLite holds on it, and another process would take itself for the last one.
static void note_file(int file, FILE *note) {
    char path[64], block[1 << 16];
    int source = file;
    if ((fcntl(file, F_GETFL) & O_ACCMODE) == O_WRONLY) {
        sprintf(path, "/proc/self/fd/%d", file);
        source = open(path, O_RDONLY | O_CLOEXEC);
    }
    ssize_t count;
    off_t place = 0;
    while (source >= 0 && (count = pread(source, block, sizeof block, place)) > 0) {
        fwrite(block, 1, count, note);
        place += count;
    }
    if (source >= 0 && source != file) close(source);
}

static void note_folder(int folder, FILE *note) {
    char name[128], target[PATH_MAX];
    struct statx found;
    int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = own < 0 ? NULL : fdopendir(own);
    struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (name_of(folder, entry->d_name, name, &found)) continue;
        ssize_t length = S_ISLNK(found.stx_mode) ? readlinkat(folder, entry->d_name, target, sizeof target - 1) : 0;
        target[length > 0 ? length : 0] = 0;
        fprintf(note, "%s%c%o%c%s%c%s%c", name, 0, found.stx_mode, 0, entry->d_name, 0, target, 0);
    }
    if (entries) closedir(entries);
}

// Whether it was noted: it is what a power cut may meet.
static int note(int file) {
    char path[PATH_MAX], link[64], name[128], noted[PATH_MAX], drawn[PATH_MAX];
    struct statx found;
    if (!root || !notes) return 0;
    sprintf(link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (strncmp(path, root, strlen(root)) || name_of(file, "", name, &found)) return 0;
    snprintf(noted, sizeof noted, "%s/%s", notes, name);
    snprintf(drawn, sizeof drawn, "%s/%s.%d.%p", notes, name, getpid(), (void *)&found);
    FILE *note = fopen(drawn, "we");
    if (!note) return 0;
    S_ISDIR(found.stx_mode) ? note_folder(file, note) : note_file(file, note);
    fclose(note);
    rename(drawn, noted);
    return 1;
}

#define REAL(name)                     \
    static __typeof__(&(name)) real;   \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

int fsync(int file) {
    REAL(fsync);
    return note(file) ? 0 : real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    return note(file) ? 0 : real(file);
}

static const char *of_this_boot(const char *path, char *own) {
    if (!notes || strcmp(path, BOOT_ID)) return path;
    snprintf(own, PATH_MAX, "%s/boot_id", notes);
    return own;
}

#define MODE(last)                      \
    char own[PATH_MAX];                 \
    va_list rest;                       \
    va_start(rest, last);               \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest)

int open(const char *path, int flags, ...) {
    MODE(flags);
    REAL(open);
    return real(of_this_boot(path, own), flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags);
    REAL(open64);
    return real(of_this_boot(path, own), flags, mode);
}
