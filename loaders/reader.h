/* A regular file that is read as a stream, from its start on. */
#ifndef RWK_LOADERS_READER_H
#define RWK_LOADERS_READER_H

#include "runtime/base/error.h"

struct rwk_reader {
    const char *path; /* the caller's */
    int fd;
    size_t size, at;
};

enum rwk_status rwk_reader_open(struct rwk_reader *ret_reader, const char *path,
                                struct rwk_error *error);
/* rwk_read_fn on a struct rwk_reader. */
int rwk_reader_read(void *reader, void *buffer, size_t size, size_t *ret_size);
void rwk_reader_close(struct rwk_reader *reader);

#endif
