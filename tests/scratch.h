/* What tests of files need: a directory of their own, files in it, and an allocator that refuses on
 * purpose. */
#ifndef RWK_TESTS_SCRATCH_H
#define RWK_TESTS_SCRATCH_H

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ropewalk/ropewalk.h>

static char scratch[64]; /* the directory, between scratch_open and scratch_close */

static inline void scratch_open(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ropewalk-XXXXXX", base);
    ck_assert_ptr_nonnull(mkdtemp(scratch));
}

/* The path of a file in the directory; good until the eighth call after this one. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][512];
    static unsigned at;
    char *path = paths[at++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", scratch, name);
    return path;
}

static inline const char *scratch_write(const char *name, const void *data, size_t size)
{
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static inline void scratch_clear(void)
{
    DIR *directory = opendir(scratch);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove(scratch_path(entry->d_name));
    if (directory)
        closedir(directory);
}

static inline void scratch_close(void)
{
    scratch_clear();
    rmdir(scratch);
}

/* A host allocator that refuses the allocation number `refuse` (from 0) and counts what is
 * outstanding. */
struct refusing {
    long refuse, n_asked, n_held;
};

static inline void *refusing_alloc(void *user_data, size_t size, size_t alignment)
{
    struct refusing *r = user_data;
    void *pointer = NULL;
    if (r->n_asked++ == r->refuse || posix_memalign(&pointer, alignment, size) != 0)
        return NULL;
    r->n_held++;
    return pointer;
}

static inline void refusing_free(void *user_data, void *pointer, size_t size)
{
    struct refusing *r = user_data;
    (void)size;
    r->n_held--;
    free(pointer);
}

static inline struct rwk_allocator refusing_allocator(struct refusing *r)
{
    return (struct rwk_allocator) { refusing_alloc, refusing_free, r };
}

/* One line that begins with the file, as every message of a loader must. */
static inline void assert_message(const struct rwk_error *error, const char *file)
{
    ck_assert_msg(strncmp(error->message, file, strlen(file)) == 0, "\"%s\" does not begin with %s",
                  error->message, file);
    ck_assert_msg(!strpbrk(error->message, "\r\n"), "\"%s\" is not one line", error->message);
}

#endif
