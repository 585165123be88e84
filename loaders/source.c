/* Sources: directory -> path -> file; blobs -> the one of that name; functions -> open, then map or
 * read, then close. */
#include "loaders/source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void rwk_source_init(struct rwk_source *source)
{
    *source = (struct rwk_source) { .size = sizeof *source };
}

enum rwk_status rwk_files_init(struct rwk_files *ret_files, const struct rwk_source *source,
                               struct rwk_memory *memory, struct rwk_progress *progress,
                               struct rwk_error *error)
{
    struct rwk_files files = { .memory = memory, .progress = progress };
    memcpy(&files.source, source,
           source->size < sizeof files.source ? source->size : sizeof files.source);
    const struct rwk_source *s = &files.source;
    if (!!s->path + !!s->blobs + !!s->functions != 1)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "source",
                           "exactly one of path, blobs and functions must be given");
    if (s->functions && (!s->functions->open || !s->functions->close ||
                         (!s->functions->map && !s->functions->read)))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "source",
                           "functions must have open, close, and map or read");
    files.label = s->path ? s->path : "source";
    files.is_directory = !s->path || rwk_path_is_directory(s->path);
    *ret_files = files;
    return RWK_STATUS_OK;
}

struct rwk_files rwk_files_of(const char *path, struct rwk_memory *memory)
{
    return (struct rwk_files) { .source = { .size = sizeof(struct rwk_source), .path = path },
                                .label = path,
                                .is_directory = rwk_path_is_directory(path),
                                .memory = memory };
}

/* ---- blobs ---- */

static const struct rwk_blob *find_blob(const struct rwk_files *files, const char *name)
{
    for (size_t i = 0; i < files->source.n_blobs; i++)
        if (strcmp(files->source.blobs[i].name, name) == 0)
            return &files->source.blobs[i];
    return NULL;
}

/* ---- any ---- */

bool rwk_files_have(const struct rwk_files *files, const char *name)
{
    const struct rwk_file_functions *f = files->source.functions;
    if (!rwk_path_is_inside(name))
        return false;
    if (f) {
        void *handle = NULL;
        uint64_t size = 0;
        int code = f->open(f->user_data, name, &handle, &size);
        if (code == 0)
            f->close(f->user_data, handle);
        return code != ENOENT; /* one that cannot be opened is reported when it is */
    }
    if (files->source.blobs)
        return find_blob(files, name) != NULL;
    /* No memory is asked for: a refusal would look like a file that is not there. What is too long
     * for the buffer is reported when it is opened. */
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", files->source.path, name);
    return n < 0 || (size_t)n >= sizeof path || rwk_path_exists(path);
}

uint64_t rwk_files_size(const struct rwk_files *files, const char *name)
{
    const struct rwk_file_functions *f = files->source.functions;
    uint64_t size = 0;
    if (!rwk_path_is_inside(name))
        return 0;
    if (f) {
        void *handle = NULL;
        if (f->open(f->user_data, name, &handle, &size) != 0)
            return 0;
        f->close(f->user_data, handle);
        return size;
    }
    if (files->source.blobs) {
        const struct rwk_blob *blob = find_blob(files, name);
        return blob ? blob->size : 0;
    }
    struct stat st;
    struct rwk_arena arena = { .memory = files->memory };
    char *path;
    if (rwk_path_join(&path, &arena, files->source.path, name, NULL) == RWK_STATUS_OK &&
        stat(path, &st) == 0)
        size = (uint64_t)st.st_size;
    rwk_arena_finish(&arena);
    return size;
}

/* The name's file of a source that is no directory. */
static enum rwk_status open_foreign(struct rwk_file *ret_file, const struct rwk_files *files,
                                    const char *name, enum rwk_load_mode mode,
                                    struct rwk_error *error)
{
    const struct rwk_file_functions *f = files->source.functions;
    const struct rwk_blob *blob = NULL;
    struct rwk_foreign foreign = { .functions = f };
    if (mode == RWK_LOAD_MAP_LOCK)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "load_mode",
                           "only files of a directory can be locked in memory");
    if (f) {
        int code = f->open(f->user_data, name, &foreign.handle, &foreign.size);
        if (code)
            return rwk_fail_io(error, name, code, "cannot be opened");
    } else {
        blob = find_blob(files, name);
        if (!blob)
            return rwk_fail_io(error, name, ENOENT, "cannot be opened");
        foreign.data = blob->data;
        foreign.size = blob->size;
    }
    return rwk_file_hold_foreign(ret_file, &foreign, name, mode, files->progress, files->memory,
                                 error);
}

enum rwk_status rwk_files_open(struct rwk_file *ret_file, const struct rwk_files *files,
                               const char *name, enum rwk_load_mode mode, struct rwk_error *error)
{
    if (!name)
        return rwk_file_open_telling(ret_file, files->source.path, mode, files->progress,
                                     files->memory, error);
    if (!files->source.path && !rwk_path_is_inside(name))
        return rwk_fail(error, RWK_STATUS_FORMAT, files->label,
                        "\"%.200s\" is no name of a file inside the directory", name);
    if (!files->source.path)
        return open_foreign(ret_file, files, name, mode, error);
    struct rwk_arena arena = { .memory = files->memory };
    char *path = NULL;
    enum rwk_status status = rwk_path_join(&path, &arena, files->source.path, name, error);
    if (!status)
        status = rwk_file_open_telling(ret_file, path, mode, files->progress, files->memory, error);
    rwk_arena_finish(&arena);
    return status;
}
