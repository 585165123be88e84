/* A file that appears whole or not at all: written beside its place under a name of its own,
 * synced, then renamed. What was there before stays until then. The first failure sticks and is
 * reported by commit. */
#ifndef RWK_LOADERS_WRITER_H
#define RWK_LOADERS_WRITER_H

#include "runtime/base/error.h"
#include "runtime/base/memory.h"

struct rwk_writer {
    const char *path, *temporary; /* in the arena */
    int fd;
    int os_error;  /* of the first failure, or 0 */
    uint64_t size; /* written so far */
};

/* `mode`: permissions of the new file, before the process's mask. Strings go to the arena, which
 * must outlive the writer. */
enum rwk_status rwk_writer_open(struct rwk_writer *ret_writer, const char *path, unsigned mode,
                                struct rwk_arena *arena, struct rwk_error *error);
void rwk_writer_put(struct rwk_writer *writer, const void *data, size_t size);
/* Puts the file in its place; on failure it is gone. */
enum rwk_status rwk_writer_commit(struct rwk_writer *writer, struct rwk_error *error);
/* Drops what was written. */
void rwk_writer_abandon(struct rwk_writer *writer);

#endif
