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

enum { PREFETCH_STEP = 64 << 20 };

static enum rwk_status io_error(struct rwk_error *error, const char *path, int code,
                                const char *what)
{
    struct rwk_where where = { .file = path, .offset = RWK_NO_OFFSET, .os_error = code };
    return rwk_fail_at(error, RWK_STATUS_IO, &where, "%s", what);
}

static enum rwk_status read_whole(int fd, char *data, size_t size, const char *path,
                                  struct rwk_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(error, path, errno, "cannot be read");
        if (n == 0)
            return io_error(error, path, 0, "became shorter while it was read");
        done += (size_t)n;
    }
    char more;
    if (pread(fd, &more, 1, (off_t)size) > 0)
        return io_error(error, path, 0, "became longer while it was read");
    return RWK_STATUS_OK;
}

static enum rwk_status hold(struct rwk_file *file, int fd, const char *path,
                            struct rwk_error *error)
{
    if (file->load_mode == RWK_LOAD_READ || file->size == 0) {
        char *data = rwk_alloc(file->memory, file->size);
        if (!data)
            return rwk_fail(error, RWK_STATUS_NOMEM, path, "out of memory: %zu bytes were refused",
                            file->size);
        enum rwk_status status = read_whole(fd, data, file->size, path, error);
        file->load_mode = RWK_LOAD_READ;
        file->data = data;
        if (status)
            rwk_free(file->memory, data);
        return status;
    }
    void *data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return io_error(error, path, errno, "cannot be mapped");
    if (file->load_mode == RWK_LOAD_MAP_LOCK && mlock(data, file->size) != 0) {
        int code = errno;
        munmap(data, file->size);
        return io_error(error, path, code, "cannot be locked in memory");
    }
    file->data = data;
    return RWK_STATUS_OK;
}

static enum rwk_status open_fd(int fd, struct rwk_file *file, const char *path,
                               struct rwk_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return io_error(error, path, errno, "cannot be examined");
    if (!S_ISREG(st.st_mode))
        return io_error(error, path, 0,
                        S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
    if ((uintmax_t)st.st_size > SIZE_MAX / 2)
        return io_error(error, path, 0, "is too large for this machine's address space");
    file->size = (size_t)st.st_size;
    return hold(file, fd, path, error);
}

enum rwk_status rwk_file_open(struct rwk_file *ret_file, const char *path,
                              enum rwk_load_mode load_mode, struct rwk_memory *memory,
                              struct rwk_error *error)
{
    struct rwk_file file = { .load_mode = load_mode, .memory = memory };
    size_t n = strlen(path);
    char *copy = rwk_alloc(memory, n + 1);
    if (!copy)
        return rwk_fail_nomem(error, n + 1);
    memcpy(copy, path, n + 1);
    file.path = copy;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    enum rwk_status status =
        fd < 0 ? io_error(error, path, errno, "cannot be opened") : open_fd(fd, &file, path, error);
    if (fd >= 0)
        close(fd);
    if (status) {
        rwk_free(memory, copy);
        return status;
    }
    *ret_file = file;
    return RWK_STATUS_OK;
}

void rwk_file_close(struct rwk_file *file)
{
    if (!file->memory)
        return;
    if (file->load_mode == RWK_LOAD_READ)
        rwk_free(file->memory, (void *)file->data);
    else
        munmap((void *)file->data, file->size);
    rwk_free(file->memory, (void *)file->path);
    *file = (struct rwk_file) { 0 };
}

void rwk_file_prefetch(const struct rwk_file *file, size_t offset, size_t size,
                       enum rwk_prefetch how)
{
    if (file->load_mode == RWK_LOAD_READ || how == RWK_PREFETCH_NONE || offset >= file->size)
        return;
    size = size < file->size - offset ? size : file->size - offset;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = offset / page * page;
    char *data = (char *)file->data + begin;
    size += offset - begin;
    madvise(data, size, MADV_WILLNEED);
    for (size_t done = 0; how == RWK_PREFETCH_NOW && done < size; done += PREFETCH_STEP)
        if (madvise(data + done, size - done < PREFETCH_STEP ? size - done : PREFETCH_STEP,
                    MADV_POPULATE_READ) != 0)
            return;
}

void rwk_file_release(const struct rwk_file *file, const void *data, size_t size)
{
    if (file->load_mode != RWK_LOAD_MAP)
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
