/* See faults.h. The names are glibc's for programs with 64-bit file offsets. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct faults faults = { .refuse = -1 };

/* Whether this call fails; errno is then set. */
static bool refuse(enum fault_kind kind)
{
    if (!(faults.kinds & kind))
        return false;
    long call = faults.n_calls++;
    bool fails =
        faults.refuse >= 0 && (faults.once_only ? call == faults.refuse : call >= faults.refuse);
    if (fails)
        errno = faults.os_error;
    return fails;
}

void faults_begin(unsigned kinds, long number, int os_error)
{
    faults.kinds = kinds;
    faults.refuse = number;
    faults.os_error = os_error;
    faults.once_only = true;
    faults.n_calls = 0;
}

bool faults_end(void)
{
    bool happened = faults.refuse >= 0 && faults.n_calls > faults.refuse;
    faults.kinds = 0;
    faults.refuse = -1;
    return happened;
}

/* ---- the host's allocator ---- */

static void *host_alloc(void *user_data, size_t size, size_t alignment)
{
    struct faults *f = user_data;
    void *pointer = NULL;
    if (refuse(FAULT_HOST) || posix_memalign(&pointer, alignment, size) != 0)
        return NULL;
    f->n_blocks++;
    f->bytes += size;
    f->peak = f->bytes > f->peak ? f->bytes : f->peak;
    return pointer;
}

static void host_free(void *user_data, void *pointer, size_t size)
{
    struct faults *f = user_data;
    f->n_blocks--;
    f->bytes -= size;
    free(pointer);
}

const struct rwk_allocator *fault_allocator(void)
{
    static const struct rwk_allocator allocator = { host_alloc, host_free, &faults };
    return &allocator;
}

/* ---- the system ---- */

int __real_open64(const char *path, int flags, ...);
int __real_close(int fd);
int __real_stat64(const char *path, struct stat *st);
int __real_lstat64(const char *path, struct stat *st);
int __real_fstat64(int fd, struct stat *st);
ssize_t __real_pread64(int fd, void *data, size_t size, off_t offset);
void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
int __real_mlock(const void *at, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __real_posix_memalign(void **ret, size_t alignment, size_t size);

int __wrap_open64(const char *path, int flags, ...);
int __wrap_close(int fd);
int __wrap_stat64(const char *path, struct stat *st);
int __wrap_lstat64(const char *path, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
ssize_t __wrap_pread64(int fd, void *data, size_t size, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
int __wrap_mlock(const void *at, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __wrap_posix_memalign(void **ret, size_t alignment, size_t size);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    int fd = refuse(FAULT_OPEN) ? -1 : __real_open64(path, flags, mode);
    faults.n_files += fd >= 0;
    return fd;
}

int __wrap_close(int fd)
{
    faults.n_files--;
    return __real_close(fd);
}

int __wrap_stat64(const char *path, struct stat *st)
{
    return refuse(FAULT_EXAMINE) ? -1 : __real_stat64(path, st);
}

int __wrap_lstat64(const char *path, struct stat *st)
{
    return refuse(FAULT_EXAMINE) ? -1 : __real_lstat64(path, st);
}

int __wrap_fstat64(int fd, struct stat *st)
{
    return refuse(FAULT_EXAMINE) ? -1 : __real_fstat64(fd, st);
}

ssize_t __wrap_pread64(int fd, void *data, size_t size, off_t offset)
{
    static unsigned n;
    if (refuse(FAULT_READ))
        return faults.os_error ? -1 : 0;
    if (faults.trickle && n++ % 2) {
        errno = EINTR;
        return -1;
    }
    return __real_pread64(fd, data, faults.trickle && size ? 1 : size, offset);
}

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *data =
        refuse(FAULT_MAP) ? MAP_FAILED : __real_mmap64(at, size, protection, flags, fd, offset);
    faults.n_mappings += data != MAP_FAILED;
    return data;
}

int __wrap_munmap(void *at, size_t size)
{
    faults.n_mappings--;
    return __real_munmap(at, size);
}

int __wrap_mlock(const void *at, size_t size)
{
    return refuse(FAULT_MAP) ? -1 : __real_mlock(at, size);
}

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    return refuse(FAULT_WRITE) ? -1 : __real_write(fd, data, size);
}

int __wrap_fsync(int fd) { return refuse(FAULT_WRITE) ? -1 : __real_fsync(fd); }

int __wrap_rename(const char *from, const char *to)
{
    return refuse(FAULT_WRITE) ? -1 : __real_rename(from, to);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return refuse(FAULT_WRITE) ? -1 : __real_mkdir(path, mode);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg)
{
    return refuse(FAULT_THREAD) ? faults.os_error
                                : __real_pthread_create(thread, attributes, fn, arg);
}

int __wrap_posix_memalign(void **ret, size_t alignment, size_t size)
{
    return refuse(FAULT_MALLOC) ? ENOMEM : __real_posix_memalign(ret, alignment, size);
}
