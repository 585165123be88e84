/* Whole files as bytes: mapped, or read. Only regular files (through symbolic links, as the hub's
 * cache lays them) are opened; pipes, directories and devices are refused without blocking. */
#ifndef RWK_LOADERS_FILE_H
#define RWK_LOADERS_FILE_H

#include "runtime/base/error.h"
#include "runtime/base/memory.h"
#include "runtime/base/progress.h"

struct rwk_file {
    const char *path; /* a copy, for messages */
    const void *data; /* [size]; a valid pointer also for size 0 */
    size_t size;
    uint32_t load_mode;                  /* enum rwk_load_mode: how data is held */
    bool is_foreign;                     /* data is the host's: neither unmapped nor freed */
    struct rwk_file_functions functions; /* of an open foreign file; or zero */
    void *handle;
    struct rwk_memory *memory;
};

/* load_mode as in rwk_model_options. Errors: IO. A file that changes its size while it is read is
 * IO, too. */
enum rwk_status rwk_file_open(struct rwk_file *ret_file, const char *path,
                              enum rwk_load_mode load_mode, struct rwk_memory *memory,
                              struct rwk_error *error);
/* The same, telling the progress of reading in bytes; CANCELLED. `progress` may be NULL. */
enum rwk_status rwk_file_open_telling(struct rwk_file *ret_file, const char *path,
                                      enum rwk_load_mode load_mode, struct rwk_progress *progress,
                                      struct rwk_memory *memory, struct rwk_error *error);

/* A file that the host holds: bytes in memory, or a handle of its functions'. */
struct rwk_foreign {
    const struct rwk_file_functions *functions; /* NULL: data is there */
    void *handle;
    const void *data;
    uint64_t size;
};
/* Mapped: uses the bytes where they are, if they are in memory. Read: copies them. The handle is
 * closed on failure, at once after reading, or by rwk_file_close. */
enum rwk_status rwk_file_hold_foreign(struct rwk_file *ret_file, const struct rwk_foreign *foreign,
                                      const char *name, enum rwk_load_mode load_mode,
                                      struct rwk_progress *progress, struct rwk_memory *memory,
                                      struct rwk_error *error);
void rwk_file_close(struct rwk_file *file); /* zeroed objects are fine */

/* Has the pages of [offset, offset + size) brought in: in the background, or before returning,
 * which tells the progress in bytes (`progress` may be NULL). Best effort; false when the host
 * asked to stop. */
bool rwk_file_prefetch(const struct rwk_file *file, size_t offset, size_t size,
                       enum rwk_prefetch how, struct rwk_progress *progress);

/* Pages of a mapped file that lie wholly within [data, data + size) leave this process's memory
 * until they are read again. */
void rwk_file_release(const struct rwk_file *file, const void *data, size_t size);

/* Opens a regular file for reading, without blocking on what is none. Errors: IO. */
enum rwk_status rwk_path_open(int *ret_fd, size_t *ret_size, const char *path,
                              struct rwk_error *error);
/* directory "/" name, in the arena. RWK_STATUS_FORMAT when the name may not be joined. */
enum rwk_status rwk_path_join(char **ret_path, struct rwk_arena *arena, const char *directory,
                              const char *name, struct rwk_error *error);
/* Whether a name may be joined: relative, not empty, no ".." in it. */
bool rwk_path_is_inside(const char *name);
/* Whether something exists at the path (a broken symbolic link does, so that it is reported rather
 * than passed over). */
bool rwk_path_exists(const char *path);
bool rwk_path_is_directory(const char *path);

#endif
