/* See reader.h. */
#include "loaders/reader.h"

#include <errno.h>
#include <unistd.h>
#include "loaders/file.h"

enum rwk_status rwk_reader_open(struct rwk_reader *ret_reader, const char *path,
                                struct rwk_error *error)
{
    struct rwk_reader reader = { .path = path };
    enum rwk_status status = rwk_path_open(&reader.fd, &reader.size, path, error);
    if (!status)
        *ret_reader = reader;
    return status;
}

int rwk_reader_read(void *reader, void *buffer, size_t size, size_t *ret_size)
{
    struct rwk_reader *r = reader;
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(r->fd, (char *)buffer + done, size - done);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n == 0)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    r->at += done;
    *ret_size = done;
    return 0;
}

void rwk_reader_close(struct rwk_reader *reader)
{
    close(reader->fd);
}
