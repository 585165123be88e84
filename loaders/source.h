/* Where the files of a model or tokenizer come from: a directory, memory, or functions of the
 * host's. Names are checked in one place: whatever the source, none may leave it. */
#ifndef RWK_LOADERS_SOURCE_H
#define RWK_LOADERS_SOURCE_H

#include "loaders/file.h"

/* A source, and what opening files of it needs. */
struct rwk_files {
    struct rwk_source source;
    const char *label; /* for messages: the path, or "source" */
    bool is_directory; /* a directory, blobs or functions: files have names */
    struct rwk_memory *memory;
    struct rwk_progress *progress; /* or NULL */
};

/* Takes what `source` covers of the struct. RANGE when it does not name exactly one place. A path
 * need not exist. */
enum rwk_status rwk_files_init(struct rwk_files *ret_files, const struct rwk_source *source,
                               struct rwk_memory *memory, struct rwk_progress *progress,
                               struct rwk_error *error);
/* The directory or file of a path. */
struct rwk_files rwk_files_of(const char *path, struct rwk_memory *memory);

/* Whether there is such a file (a broken symbolic link is one, so that it is reported rather than
 * passed over). */
bool rwk_files_have(const struct rwk_files *files, const char *name);
/* 0 for a file that cannot be examined. */
uint64_t rwk_files_size(const struct rwk_files *files, const char *name);
/* Opens a file; name NULL: the one file that the source's path is. Reading tells the progress.
 * Errors: IO, CANCELLED; FORMAT for a name that leaves the source; UNSUPPORTED: memory that is not
 * ours cannot be locked. */
enum rwk_status rwk_files_open(struct rwk_file *ret_file, const struct rwk_files *files,
                               const char *name, enum rwk_load_mode mode, struct rwk_error *error);

#endif
