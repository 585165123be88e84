/* Opening files: open without blocking -> regular? -> map, or read whole. */
#include "loaders/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

enum { STEP = 16 << 20 }; /* bytes between two looks at what the host wants */

static enum rwk_status cancelled(struct rwk_error *error, const char *path)
{
    return rwk_fail(error, RWK_STATUS_CANCELLED, path, "loading was cancelled");
}

static size_t step(size_t left)
{
    return left < STEP ? left : STEP;
}

static enum rwk_status read_whole(int fd, char *data, size_t size, const char *path,
                                  struct rwk_progress *progress, struct rwk_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, data + done, step(size - done), (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rwk_fail_io(error, path, errno, "cannot be read");
        if (n == 0)
            return rwk_fail_io(error, path, 0, "became shorter while it was read");
        done += (size_t)n;
        if (!rwk_progress_add(progress, (uint64_t)n))
            return cancelled(error, path);
    }
    char more;
    if (pread(fd, &more, 1, (off_t)size) > 0)
        return rwk_fail_io(error, path, 0, "became longer while it was read");
    return RWK_STATUS_OK;
}

static enum rwk_status hold(struct rwk_file *file, int fd, const char *path,
                            struct rwk_progress *progress, struct rwk_error *error)
{
    if (file->load_mode == RWK_LOAD_READ || file->size == 0) {
        char *data = rwk_alloc(file->memory, file->size);
        if (!data)
            return rwk_fail(error, RWK_STATUS_NOMEM, path, "out of memory: %zu bytes were refused",
                            file->size);
        enum rwk_status status = read_whole(fd, data, file->size, path, progress, error);
        file->load_mode = RWK_LOAD_READ;
        file->data = data;
        if (status)
            rwk_free(file->memory, data);
        return status;
    }
    void *data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return rwk_fail_io(error, path, errno, "cannot be mapped");
    if (file->load_mode == RWK_LOAD_MAP_LOCK && mlock(data, file->size) != 0) {
        int code = errno;
        munmap(data, file->size);
        return rwk_fail_io(error, path, code, "cannot be locked in memory");
    }
    file->data = data;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_path_open(int *ret_fd, size_t *ret_size, const char *path,
                              struct rwk_error *error)
{
    struct stat st;
    enum rwk_status status = RWK_STATUS_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return rwk_fail_io(error, path, errno, "cannot be opened");
    if (fstat(fd, &st) != 0)
        status = rwk_fail_io(error, path, errno, "cannot be examined");
    else if (!S_ISREG(st.st_mode))
        status = rwk_fail_io(error, path, 0,
                             S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
    else if ((uintmax_t)st.st_size > SIZE_MAX / 2)
        status = rwk_fail_io(error, path, 0, "is too large for this machine's address space");
    if (status) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    *ret_size = (size_t)st.st_size;
    return RWK_STATUS_OK;
}

/* An empty file object with a copy of its path. */
static enum rwk_status begin(struct rwk_file *file, const char *path, enum rwk_load_mode load_mode,
                             struct rwk_memory *memory, struct rwk_error *error)
{
    size_t n = strlen(path);
    char *copy = rwk_alloc(memory, n + 1);
    if (!copy)
        return rwk_fail_nomem(error, n + 1);
    memcpy(copy, path, n + 1);
    *file = (struct rwk_file) { .path = copy, .load_mode = load_mode, .memory = memory };
    return RWK_STATUS_OK;
}

enum rwk_status rwk_file_open_telling(struct rwk_file *ret_file, const char *path,
                                      enum rwk_load_mode load_mode, struct rwk_progress *progress,
                                      struct rwk_memory *memory, struct rwk_error *error)
{
    struct rwk_file file;
    enum rwk_status status = begin(&file, path, load_mode, memory, error);
    if (status)
        return status;
    int fd = -1;
    status = rwk_path_open(&fd, &file.size, path, error);
    if (!status) {
        status = hold(&file, fd, path, progress, error);
        close(fd);
    }
    if (status) {
        rwk_free(memory, (void *)file.path);
        return status;
    }
    *ret_file = file;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_file_open(struct rwk_file *ret_file, const char *path,
                              enum rwk_load_mode load_mode, struct rwk_memory *memory,
                              struct rwk_error *error)
{
    return rwk_file_open_telling(ret_file, path, load_mode, NULL, memory, error);
}

/* ---- files of the host's ---- */

static enum rwk_status copy_foreign(char *to, const struct rwk_foreign *foreign, const char *name,
                                    struct rwk_progress *progress, struct rwk_error *error)
{
    const struct rwk_file_functions *f = foreign->functions;
    for (size_t done = 0, n; done < foreign->size; done += n) {
        n = step((size_t)foreign->size - done);
        int code = 0;
        if (foreign->data)
            memcpy(to + done, (const char *)foreign->data + done, n);
        else
            code = f->read(f->user_data, foreign->handle, done, to + done, n);
        if (code)
            return rwk_fail_io(error, name, code, "cannot be read");
        if (!rwk_progress_add(progress, n))
            return cancelled(error, name);
    }
    return RWK_STATUS_OK;
}

/* file->data: the host's bytes, or a copy of them. */
static enum rwk_status hold_foreign(struct rwk_file *file, struct rwk_foreign *foreign,
                                    struct rwk_progress *progress, struct rwk_error *error)
{
    const struct rwk_file_functions *f = foreign->functions;
    if (foreign->size > SIZE_MAX / 2)
        return rwk_fail_io(error, file->path, 0, "is too large for this machine's address space");
    bool copies = file->load_mode == RWK_LOAD_READ || foreign->size == 0;
    if (f && f->map && foreign->size && !(copies && f->read)) {
        foreign->data = f->map(f->user_data, foreign->handle);
        if (!foreign->data)
            return rwk_fail_io(error, file->path, 0, "cannot be mapped");
    }
    file->size = (size_t)foreign->size;
    if (!copies && foreign->data) {
        file->is_foreign = true;
        file->data = foreign->data;
        return RWK_STATUS_OK;
    }
    char *data = rwk_alloc(file->memory, file->size);
    if (!data)
        return rwk_fail_nomem(error, file->size);
    enum rwk_status status = copy_foreign(data, foreign, file->path, progress, error);
    if (status)
        rwk_free(file->memory, data);
    file->load_mode = RWK_LOAD_READ;
    file->data = data;
    return status;
}

enum rwk_status rwk_file_hold_foreign(struct rwk_file *ret_file, const struct rwk_foreign *foreign,
                                      const char *name, enum rwk_load_mode load_mode,
                                      struct rwk_progress *progress, struct rwk_memory *memory,
                                      struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    struct rwk_foreign f = *foreign;
    enum rwk_status status = begin(&file, name, load_mode, memory, error);
    if (!status)
        status = hold_foreign(&file, &f, progress, error);
    if (f.functions && file.is_foreign) {
        file.functions = *f.functions;
        file.handle = f.handle;
    } else if (f.functions) {
        f.functions->close(f.functions->user_data, f.handle);
    }
    if (status)
        rwk_free(memory, (void *)file.path);
    else
        *ret_file = file;
    return status;
}

/* ---- any file ---- */

void rwk_file_close(struct rwk_file *file)
{
    if (!file->memory)
        return;
    if (file->functions.close)
        file->functions.close(file->functions.user_data, file->handle);
    else if (file->load_mode == RWK_LOAD_READ)
        rwk_free(file->memory, (void *)file->data);
    else if (!file->is_foreign)
        munmap((void *)file->data, file->size);
    rwk_free(file->memory, (void *)file->path);
    *file = (struct rwk_file) { 0 };
}

bool rwk_file_prefetch(const struct rwk_file *file, size_t offset, size_t size,
                       enum rwk_prefetch how, struct rwk_progress *progress)
{
    bool is_mapped = file->load_mode != RWK_LOAD_READ && !file->is_foreign;
    if (!is_mapped || how == RWK_PREFETCH_NONE || offset >= file->size)
        return true;
    size = size < file->size - offset ? size : file->size - offset;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin_at = offset / page * page;
    char *data = (char *)file->data + begin_at;
    size += offset - begin_at;
    madvise(data, size, MADV_WILLNEED);
    if (how != RWK_PREFETCH_NOW)
        return true;
    for (size_t done = 0, n; done < size; done += n) {
        n = step(size - done);
        madvise(data + done, n, MADV_POPULATE_READ);
        if (!rwk_progress_add(progress, n))
            return false;
    }
    return true;
}

void rwk_file_release(const struct rwk_file *file, const void *data, size_t size)
{
    if (file->load_mode != RWK_LOAD_MAP || file->is_foreign)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           offset = (size_t)((const char *)data - (const char *)file->data);
    size_t begin = rwk_round_up(offset, page), end = (offset + size) / page * page;
    if (begin < end)
        madvise((char *)file->data + begin, end - begin, MADV_DONTNEED);
}

/* ---- paths ---- */

bool rwk_path_is_inside(const char *name)
{
    if (!*name || *name == '/')
        return false;
    for (; *name; name += strcspn(name, "/"), name += *name == '/')
        if (strncmp(name, "..", 2) == 0 && (name[2] == '/' || name[2] == '\0'))
            return false;
    return true;
}

enum rwk_status rwk_path_join(char **ret_path, struct rwk_arena *arena, const char *directory,
                              const char *name, struct rwk_error *error)
{
    if (!rwk_path_is_inside(name))
        return rwk_fail(error, RWK_STATUS_FORMAT, directory,
                        "\"%.200s\" is no name of a file inside the directory", name);
    size_t d = strlen(directory), n = strlen(name);
    bool slash = d && directory[d - 1] != '/';
    char *path = rwk_arena_alloc(arena, d + slash + n + 1);
    if (!path)
        return rwk_fail_nomem(error, d + n + 2);
    memcpy(path, directory, d);
    path[d] = '/';
    memcpy(path + d + slash, name, n + 1);
    *ret_path = path;
    return RWK_STATUS_OK;
}

bool rwk_path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

bool rwk_path_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
