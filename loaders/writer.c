/* See writer.h. */
#include "loaders/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_LEFTOVERS = 1000
}; /* names to try: others may be at work, or have been killed while they were */

static enum rwk_status failed(const struct rwk_writer *writer, struct rwk_error *error)
{
    return rwk_fail_io(error, writer->path, writer->os_error, "cannot be written");
}

enum rwk_status rwk_writer_open(struct rwk_writer *ret_writer, const char *path, unsigned mode,
                                struct rwk_arena *arena, struct rwk_error *error)
{
    const size_t n = strlen(path), room = n + sizeof ".part999";
    char *temporary = rwk_arena_alloc(arena, room);
    char *copy = rwk_arena_string(arena, path, n);
    if (!temporary || !copy)
        return rwk_fail_nomem(error, room);
    struct rwk_writer writer = {
        .path = copy, .temporary = temporary, .fd = -1, .os_error = EEXIST
    };
    for (unsigned i = 0; i < MAX_LEFTOVERS && writer.fd < 0 && writer.os_error == EEXIST; i++) {
        snprintf(temporary, room, "%s.part%u", path, i);
        writer.fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
        writer.os_error = writer.fd < 0 ? errno : 0;
    }
    if (writer.fd < 0)
        return failed(&writer, error);
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

/* So that the new name outlives a power cut. Not every file system can; the file is whole anyway.
 */
static void sync_directory(const struct rwk_writer *writer)
{
    const char *slash = strrchr(writer->path, '/');
    size_t n = slash ? (size_t)(slash - writer->path) + 1 : 0;
    char *directory = (char *)writer->temporary; /* is done with, and long enough */
    memcpy(directory, writer->path, n);
    memcpy(directory + n, ".", 2);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
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
    if (!writer->os_error) {
        sync_directory(writer);
        return RWK_STATUS_OK;
    }
    unlink(writer->temporary);
    return failed(writer, error);
}

void rwk_writer_abandon(struct rwk_writer *writer)
{
    close(writer->fd);
    unlink(writer->temporary);
}
