/* Lets the Nth call of some kind fail: FAIL_KIND names it, FAIL_AT is N, COUNT_TO a file that gets the number of calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static long fail_at = -1;
static const char *kind = "";

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAIL_AT");
    const char *of = getenv("FAIL_KIND");
    if (of) kind = of;
    fail_at = at ? atol(at) : 0;
    atomic_store(&calls, 0);
}

__attribute__((destructor)) static void end(void) {
    const char *to = getenv("COUNT_TO");
    if (!to) return;
    char text[32];
    int len = snprintf(text, sizeof text, "%ld", atomic_load(&calls));
    int fd = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    syscall(SYS_write, fd, text, len);
    syscall(SYS_close, fd);
}

/* Before `begin` ran nothing is counted: the loader and the C library start. */
static int fails(const char *own) {
    if (fail_at < 0 || strcmp(own, kind) != 0) return 0;
    return atomic_fetch_add(&calls, 1) + 1 == fail_at;
}


ssize_t read(int fd, void *to, size_t len) {
    if (fails("read")) { errno = EIO; return -1; }
    return syscall(SYS_read, fd, to, len);
}

ssize_t pread64(int fd, void *to, size_t len, off64_t at) {
    if (fails("read")) { errno = EIO; return -1; }
    return syscall(SYS_pread64, fd, to, len, at);
}

ssize_t write(int fd, const void *from, size_t len) {
    if (fd != 2 && fails("write")) { errno = ENOSPC; return -1; }
    return syscall(SYS_write, fd, from, len);
}

ssize_t writev(int fd, const struct iovec *from, int count) {
    if (fd != 2 && fails("write")) { errno = ENOSPC; return -1; }
    return syscall(SYS_writev, fd, from, count);
}

int fsync(int fd) {
    if (fails("sync")) { errno = EIO; return -1; }
    return syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    if (fails("sync")) { errno = EIO; return -1; }
    return syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to) {
    if (fails("rename")) { errno = EACCES; return -1; }
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static int open_it(int at, const char *path, int flags, unsigned mode) {
    if (fails("open")) { errno = (flags & O_CREAT) ? ENOSPC : EMFILE; return -1; }
    return syscall(SYS_openat, at, path, flags, mode);
}

#define MODE unsigned mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, unsigned); va_end(more); }

int open(const char *path, int flags, ...) { MODE return open_it(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_it(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return open_it(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return open_it(at, path, flags, mode); }

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t from) {
    if (fd >= 0 && fails("mmap")) { errno = ENOMEM; return MAP_FAILED; }
    return (void *)syscall(SYS_mmap, at, len, protection, flags, fd, from);
}

void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t from) {
    return mmap(at, len, protection, flags, fd, from);
}

extern void *__libc_malloc(size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_calloc(size_t, size_t);

void *malloc(size_t len) {
    if (fails("memory")) { errno = ENOMEM; return NULL; }
    return __libc_malloc(len);
}

void *realloc(void *old, size_t len) {
    if (fails("memory")) { errno = ENOMEM; return NULL; }
    return __libc_realloc(old, len);
}

void *calloc(size_t count, size_t len) {
    if (fails("memory")) { errno = ENOMEM; return NULL; }
    return __libc_calloc(count, len);
}
