/* Checksums of a model directory: written as a manifest, and compared with one.
 *
 *   directory -> units (a file; of a weight file its header and each tensor) -> XXH3, 128 bits, on
 * all threads -> lines
 *
 * Together the units are every byte once, so that the pages of large weights are read once. A line
 * is
 *
 *   <32 hexadecimal digits> <bytes> file "config.json"
 *   <32 hexadecimal digits> <bytes> header "model.safetensors"
 *   <32 hexadecimal digits> <bytes> tensor "model.safetensors" "model.embed_tokens.weight"
 *
 * with names as JSON strings; lines that begin with # say nothing. */
#include "checksum.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "commands.h"
#include "load.h"
#include "output.h"
#include "progress.h"
#include "tool.h"

enum { PIECE = 4 << 20, MAX_THREADS = 1024 };

static const char *const kinds[] = { "file", "header", "tensor" };
enum kind { KIND_FILE, KIND_HEADER, KIND_TENSOR, N_KINDS };

struct unit {
    enum kind kind;
    char *file, *tensor; /* tensor: "" for other kinds */
    const char *data;    /* of a tensor; else the first `bytes` of the file are read */
    uint64_t bytes;
    XXH128_hash_t hash;
};

struct units {
    struct unit *items;
    size_t n, capacity;
    const char *directory;
    struct rwk_tensor_file **files; /* that tensors lie in */
    size_t n_files, files_capacity;
    struct stat manifest; /* left out where it lies in the directory */
};

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(allocate(size, 1), text, size);
}

static struct unit *add_unit(struct units *u, enum kind kind, const char *file, const char *tensor,
                             uint64_t bytes)
{
    reserve(&u->items, &u->capacity, u->n + 1, sizeof *u->items);
    struct unit *unit = &u->items[u->n++];
    *unit = (struct unit) {
        .kind = kind, .file = copy_text(file), .tensor = copy_text(tensor), .bytes = bytes
    };
    return unit;
}

static void units_finish(struct units *u)
{
    for (size_t i = 0; i < u->n; i++) {
        free(u->items[i].file);
        free(u->items[i].tensor);
    }
    for (size_t i = 0; i < u->n_files; i++)
        rwk_tensor_file_close(&u->files[i]);
    free(u->items);
    free(u->files);
}

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    int order = strcmp(x->file, y->file);
    order = order ? order : (int)x->kind - (int)y->kind;
    return order ? order : strcmp(x->tensor, y->tensor);
}

/* ---- what a directory holds ---- */

static char *path_of(const struct units *u, const char *name)
{
    size_t size = strlen(u->directory) + strlen(name) + 2;
    char *path = allocate(size, 1);
    snprintf(path, size, "%s/%s", u->directory, name);
    return path;
}

static FILE *open_unit(const struct units *u, const char *name)
{
    char *path = path_of(u, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        die("%s: %s", path, strerror(errno));
    free(path);
    return file;
}

/* The file's header and tensors, which are all of it. */
static void add_weights(struct units *u, const char *name)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_tensor_file *file = NULL;
    struct rwk_tensor_info info = { 0 };
    unsigned char length[8];
    uint64_t header = 8;
    char *path = path_of(u, name);
    check(rwk_tensor_file_open(&file, path, NULL, &error), &error);
    reserve(&u->files, &u->files_capacity, u->n_files + 1, sizeof *u->files);
    u->files[u->n_files++] = file;
    FILE *start = open_unit(u, name);
    if (fread(length, 1, sizeof length, start) != sizeof length)
        die("%s: became shorter while it was read", path);
    fclose(start);
    for (int i = 0; i < 8; i++)
        header += (uint64_t)length[i] << 8 * i;
    add_unit(u, KIND_HEADER, name, "", header);
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(file); i++) {
        check(rwk_tensor_file_get(file, i, &info), NULL);
        add_unit(u, KIND_TENSOR, name, info.name, info.n_bytes)->data = info.data;
    }
    free(path);
}

static void add_file(struct units *u, const char *name)
{
    static const char suffix[] = ".safetensors";
    struct stat st;
    char *path = path_of(u, name);
    size_t n = strlen(name);
    if (stat(path, &st) != 0)
        die("%s: %s", path, strerror(errno));
    bool is_manifest = st.st_dev == u->manifest.st_dev && st.st_ino == u->manifest.st_ino;
    bool is_weights = n >= sizeof suffix && !strcmp(name + n - (sizeof suffix - 1), suffix);
    if (S_ISREG(st.st_mode) && is_weights)
        add_weights(u, name);
    else if (S_ISREG(st.st_mode) && !is_manifest)
        add_unit(u, KIND_FILE, name, "", (uint64_t)st.st_size);
    free(path);
}

/* Regular files, also through links; names that begin with a dot are left out. */
static void read_directory(struct units *u, const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        die("%s: %s", path, strerror(errno));
    u->directory = path;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.')
            add_file(u, entry->d_name);
    closedir(directory);
    if (u->n)
        qsort(u->items, u->n, sizeof *u->items, compare_units);
}

/* ---- hashing ---- */

struct task {
    uint64_t bytes;
    struct unit *unit;
};

struct work {
    struct units *units;
    struct task *tasks; /* [units->n] the largest first, so that the threads end together */
    atomic_size_t next;
    atomic_ullong done; /* bytes */
    uint64_t total;
    struct progress progress;
    pthread_t main_thread;
};

static void add_done(struct work *w, size_t bytes)
{
    unsigned long long done = atomic_fetch_add(&w->done, bytes) + bytes;
    if (pthread_equal(pthread_self(), w->main_thread))
        progress_update(&w->progress, done, w->total);
}

/* Has pages of a mapping brought in by one call instead of a fault for every few; where that fails
 * they come by faults. */
static void bring_in(const char *data, size_t size)
{
#ifdef MADV_POPULATE_READ
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)data % page;
    madvise((char *)data - before, size + before, MADV_POPULATE_READ);
#else
    (void)data;
    (void)size;
#endif
}

static void hash_unit(struct work *w, struct unit *unit, XXH3_state_t *state, char *buffer)
{
    FILE *file = unit->data ? NULL : open_unit(w->units, unit->file);
    XXH3_128bits_reset(state);
    for (uint64_t at = 0; at < unit->bytes;) {
        size_t n = unit->bytes - at < PIECE ? (size_t)(unit->bytes - at) : PIECE;
        if (unit->data)
            bring_in(unit->data + at, n);
        if (file && fread(buffer, 1, n, file) != n)
            die("%s/%s: became shorter while it was read", w->units->directory, unit->file);
        XXH3_128bits_update(state, unit->data ? unit->data + at : buffer, n);
        add_done(w, n);
        at += n;
    }
    unit->hash = XXH3_128bits_digest(state);
    if (file)
        fclose(file);
}

static void *run_worker(void *arg)
{
    struct work *w = arg;
    char *buffer = allocate(PIECE, 1);
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        die("out of memory");
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->units->n;)
        hash_unit(w, w->tasks[i].unit, state, buffer);
    XXH3_freeState(state);
    free(buffer);
    return NULL;
}

static int compare_tasks(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void hash_units(struct units *u, const struct options *o)
{
    struct work w = { .units = u,
                      .tasks = allocate(u->n, sizeof *w.tasks),
                      .main_thread = pthread_self() };
    pthread_t threads[MAX_THREADS];
    uint32_t n = o->threads ? (uint32_t)o->threads : rwk_default_threads(), started = 0;
    for (size_t i = 0; i < u->n; i++) {
        w.tasks[i] = (struct task){ u->items[i].bytes, &u->items[i] };
        w.total += u->items[i].bytes;
    }
    qsort(w.tasks, u->n, sizeof *w.tasks, compare_tasks);
    progress_start(&w.progress, "checksum", o->quiet);
    while (started + 1 < n && started + 1 < MAX_THREADS && started + 1 < u->n &&
           pthread_create(&threads[started], NULL, run_worker, &w) == 0)
        started++;
    run_worker(&w);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    progress_clear();
    free(w.tasks);
}

/* ---- the manifest ---- */

int run_checksum(const struct options *o)
{
    struct units u = { 0 };
    fstat(STDOUT_FILENO, &u.manifest);
    read_directory(&u, o->arguments[0]);
    hash_units(&u, o);
    out_print("# ropewalk checksum, XXH3 of 128 bits\n");
    for (size_t i = 0; i < u.n; i++) {
        const struct unit *unit = &u.items[i];
        out_print("%016" PRIx64 "%016" PRIx64 " %" PRIu64 " %s ", unit->hash.high64,
                  unit->hash.low64, unit->bytes, kinds[unit->kind]);
        out_quoted(unit->file, strlen(unit->file));
        if (unit->kind == KIND_TENSOR) {
            out_write(" ", 1);
            out_quoted(unit->tensor, strlen(unit->tensor));
        }
        out_write("\n", 1);
    }
    units_finish(&u);
    return EXIT_DONE;
}

/* A line of the manifest that is being read. */
struct line {
    const char *path, *at, *end;
    size_t number;
};

_Noreturn static void bad_line(const struct line *line)
{
    die("%s: line %zu is no line of a manifest", line->path, line->number);
}

static void read_char(struct line *line, char c)
{
    if (line->at == line->end || *line->at++ != c)
        bad_line(line);
}

static uint64_t read_number(struct line *line, unsigned base, size_t min_digits, size_t max_digits)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    size_t n = 0;
    for (; n < max_digits && line->at < line->end; n++, line->at++) {
        const char *digit = memchr(digits, *line->at, base);
        if (!digit)
            break;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digit - digits), &value))
            bad_line(line);
    }
    if (n < min_digits)
        bad_line(line);
    return value;
}

static char *read_name(struct line *line)
{
    size_t room = (size_t)(line->end - line->at), size = 0, used = 0;
    char *name = allocate(room + 1, 1);
    if (rwk_json_string_decode(line->at, room, name, room, &size, &used, NULL) ||
        memchr(name, 0, size))
        bad_line(line);
    name[size] = 0;
    line->at += used;
    return name;
}

static enum kind read_kind(struct line *line)
{
    for (enum kind k = KIND_FILE; k < N_KINDS; k++) {
        size_t n = strlen(kinds[k]);
        if ((size_t)(line->end - line->at) > n && !memcmp(line->at, kinds[k], n)) {
            line->at += n;
            return k;
        }
    }
    bad_line(line);
}

static void read_line(struct units *u, struct line *line)
{
    XXH128_hash_t hash;
    hash.high64 = read_number(line, 16, 16, 16);
    hash.low64 = read_number(line, 16, 16, 16);
    read_char(line, ' ');
    uint64_t bytes = read_number(line, 10, 1, 20);
    read_char(line, ' ');
    enum kind kind = read_kind(line);
    read_char(line, ' ');
    char *file = read_name(line), *tensor = NULL;
    if (kind == KIND_TENSOR) {
        read_char(line, ' ');
        tensor = read_name(line);
    }
    if (line->at != line->end)
        bad_line(line);
    add_unit(u, kind, file, tensor ? tensor : "", bytes)->hash = hash;
    free(file);
    free(tensor);
}

static void read_manifest(struct units *u, const char *path)
{
    size_t size;
    char *text = read_whole(path, &size), *end = text + size;
    struct line line = { .path = path };
    for (char *at = text; at < end; at += line.end - at + 1) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        line.at = at;
        line.end = stop ? stop : end;
        line.number++;
        if (line.at < line.end && *line.at != '#')
            read_line(u, &line);
    }
    free(text);
    if (!u->n)
        die("%s: holds no checksums", path);
    qsort(u->items, u->n, sizeof *u->items, compare_units);
}

/* ---- comparing ---- */

struct comparison {
    const char *directory;
    char first[512]; /* the first difference */
    size_t n_different, n_new;
    bool quiet;
};

static void differs(struct comparison *c, const struct unit *unit, const char *how)
{
    char line[sizeof c->first];
    bool is_tensor = unit->kind == KIND_TENSOR;
    snprintf(line, sizeof line, "%.180s/%.100s: %s%.150s%s%s", c->directory, unit->file,
             is_tensor ? "tensor " : "", unit->tensor, is_tensor ? " " : "", how);
    if (c->n_different++ == 0)
        memcpy(c->first, line, sizeof line);
}

/* Both lists are sorted. */
static void compare(struct comparison *c, const struct units *now, const struct units *then)
{
    for (size_t i = 0, k = 0; i < now->n || k < then->n;) {
        const struct unit *a = i < now->n ? &now->items[i] : NULL,
                          *b = k < then->n ? &then->items[k] : NULL;
        int order = !a ? 1 : !b ? -1 : compare_units(a, b);
        if (order < 0)
            c->n_new++;
        else if (order > 0)
            differs(c, b, "is missing");
        else if (a->bytes != b->bytes || !XXH128_isEqual(a->hash, b->hash))
            differs(c, a, "is not what the manifest says");
        i += order <= 0;
        k += order >= 0;
    }
}

void checksum_verify(const char *directory, const struct options *o)
{
    struct units now = { 0 }, then = { 0 };
    struct comparison c = { .directory = directory };
    read_manifest(&then, o->verify);
    stat(o->verify, &now.manifest);
    read_directory(&now, directory);
    hash_units(&now, o);
    compare(&c, &now, &then);
    if (c.n_different)
        die("%s (%zu of %zu checksums differ)", c.first, c.n_different, then.n);
    if (c.n_new && !o->quiet)
        warn("notice: %zu checksums of %s are new to the manifest", c.n_new, directory);
    units_finish(&now);
    units_finish(&then);
}
