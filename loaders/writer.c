/* See writer.h. */
#include "loaders/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum rwk_status failed(const struct rwk_writer *writer, struct rwk_error *error)
{
    struct rwk_where where = { .file = writer->path, .offset = RWK_NO_OFFSET, .os_error = writer->os_error };
    return rwk_fail_at(error, RWK_STATUS_IO, &where, "cannot be written");
}

enum rwk_status rwk_writer_open(struct rwk_writer *ret_writer, const char *path, struct rwk_arena *arena,
                                struct rwk_error *error)
{
    static const char suffix[] = ".part";
    const size_t n = strlen(path);
    char *temporary = rwk_arena_alloc(arena, n + sizeof suffix);
    char *copy = rwk_arena_string(arena, path, n);
    if (!temporary || !copy)
        return rwk_fail_nomem(error, n + sizeof suffix);
    memcpy(temporary, path, n);
    memcpy(temporary + n, suffix, sizeof suffix);
    struct rwk_writer writer = { .path = copy, .temporary = temporary };
    writer.fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer.fd < 0) {
        writer.os_error = errno;
        return failed(&writer, error);
    }
    *ret_writer = writer;
    return RWK_STATUS_OK;
}

void rwk_writer_put(struct rwk_writer *writer, const void *data, size_t size)
{
    const char *from = data;
    while (size > 0 && !writer->os_error) {
        ssize_t n = write(writer->fd, from, size);
        if (n < 0) {
            writer->os_error = errno == EINTR ? 0 : errno;
            continue;
        }
        from += n;
        size -= (size_t)n;
        writer->size += (uint64_t)n;
    }
}

enum rwk_status rwk_writer_commit(struct rwk_writer *writer, struct rwk_error *error)
{
    if (!writer->os_error && fsync(writer->fd) != 0)
        writer->os_error = errno;
    if (close(writer->fd) != 0 && !writer->os_error)
        writer->os_error = errno;
    if (!writer->os_error && rename(writer->temporary, writer->path) != 0)
        writer->os_error = errno;
    if (!writer->os_error)
        return RWK_STATUS_OK;
    unlink(writer->temporary);
    return failed(writer, error);
}

void rwk_writer_abandon(struct rwk_writer *writer)
{
    close(writer->fd);
    unlink(writer->temporary);
}
