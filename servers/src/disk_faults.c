/* A disk that fails on demand, for programs that are started with LD_PRELOAD.
 *
 * DISK_FAULTS_FOLDER  only files below this folder are affected
 * DISK_FAULTS_CONTROL a folder; while it contains a file named
 *                       fsync  each fsync and fdatasync fails with EIO
 *                       write  each write fails with ENOSPC
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_affected(int fd) {
    const char *folder = getenv("DISK_FAULTS_FOLDER");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!folder || length < 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_failing(const char *fault, int fd) {
    const char *control = getenv("DISK_FAULTS_CONTROL");
    char path[4096];
    if (!control) return 0;
    snprintf(path, sizeof path, "%s/%s", control, fault);
    int before = errno;
    int failing = access(path, F_OK) == 0 && is_affected(fd);
    errno = before;
    return failing;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) {
    if (is_failing("fsync", fd)) { errno = EIO; return -1; }
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    if (is_failing("fsync", fd)) { errno = EIO; return -1; }
    return REAL(fdatasync)(fd);
}

ssize_t write(int fd, const void *data, size_t count) {
    if (is_failing("write", fd)) { errno = ENOSPC; return -1; }
    return REAL(write)(fd, data, count);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) {
    if (is_failing("write", fd)) { errno = ENOSPC; return -1; }
    return REAL(pwrite)(fd, data, count, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) {
    if (is_failing("write", fd)) { errno = ENOSPC; return -1; }
    return REAL(pwrite64)(fd, data, count, offset);
}
