/* SPDX-License-Identifier: MIT
 *
 * ropewalk.h - run pretrained language models straight from the directory they were downloaded in.
 *
 * Hello, world in ten calls (errors are left out here; examples/hello.c is a complete program, and
 * docs/api.md a guide with more):
 *
 *     rwk_model_open(&model, "path/to/model", NULL, &error);
 *     rwk_tokenizer_open(&tokenizer, "path/to/model", NULL, &error);
 *     rwk_session_create(&session, model, NULL, &error);
 *     rwk_sampler_create(&sampler, NULL, &error);
 *     rwk_stream_create(&stream, tokenizer, RWK_DECODE_SKIP_SPECIAL, &error);
 *     rwk_tokenizer_encode(tokenizer, text, strlen(text), RWK_ENCODE_ADD_SPECIAL, ids, 64, NULL,
 *                          &n, &error);
 *     rwk_session_sync(session, ids, n, NULL, &error);
 *     while (rwk_session_next(session, sampler, &next, &error) == RWK_STATUS_OK) {
 *         rwk_stream_push(stream, next.token, &piece, &size, &stopped, &error);
 *         fwrite(piece, 1, size, stdout);
 *     }
 *
 * The header climbs from what every program needs to what some do: errors, memory and threads,
 * sources of files, tokenizer, stream decoder, model, positions, sampler, session (its making, the
 * work, scores, states, statistics), options as words.
 *
 * Rules that hold for every function
 *   - Fallible calls return an enum rwk_status; RWK_STATUS_OK is 0. The last argument, where there
 *     is one, is an error object of the caller's (or NULL) that says which file, tensor or key was
 *     at fault and why.
 *   - A call that fails leaves its object, and every ret_ argument, as it was. Where it says
 *     otherwise it says so.
 *   - Outputs are named ret_... and written only on success.
 *   - Options structs start with `size`, are filled by their _init function and passed by pointer;
 *     NULL stands for the defaults. They are only ever appended to.
 *   - Models and tokenizers are immutable and reference counted: any thread may use them at any
 *     time. A session has one owner at a time; a second concurrent call on it returns
 *     RWK_STATUS_BUSY. Samplers and streams have one owner at a time, too.
 *   - The library never prints, exits, aborts, reads the environment, touches signals, or keeps
 *     writable globals, and starts no thread: the host creates a pool (rwk_pool_create) or lends
 *     its own threads (rwk_parallel_fn).
 */
#ifndef ROPEWALK_H
#define ROPEWALK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) || !defined(__GNUC__)
#define RWK_API
#else
#define RWK_API __attribute__((visibility("default")))
#endif

/* ----------------------------------------------------------------------------- version, errors */

#define RWK_VERSION_MAJOR 0
#define RWK_VERSION_MINOR 1
#define RWK_VERSION_PATCH 0

/* The version of the library that is running: major << 16 | minor << 8 | patch. */
RWK_API uint32_t rwk_version(void);

/* What every fallible call returns. The values are part of the ABI. */
enum rwk_status {
    RWK_STATUS_OK = 0,
    RWK_STATUS_NOMEM = 1,        /* the allocator refused, or the memory budget is exceeded */
    RWK_STATUS_IO = 2,           /* a file could not be opened, read, mapped or written */
    RWK_STATUS_FORMAT = 3,       /* the bytes of a file are not what their format demands */
    RWK_STATUS_UNSUPPORTED = 4,  /* well formed, but what it asks for is not done here */
    RWK_STATUS_RANGE = 5,        /* an argument is outside its range */
    RWK_STATUS_CONTEXT_FULL = 6, /* the tokens do not fit the session's context */
    RWK_STATUS_CANCELLED = 7,    /* rwk_session_cancel or a progress callback asked for it */
    RWK_STATUS_MISMATCH = 8,     /* two things do not belong together, as state and model */
    RWK_STATUS_BUSY = 9,         /* the session is in use by another call */
    RWK_STATUS_NUMERIC = 10      /* NaN or infinity where a number is needed */
};

/* A short lower-case English name ("out of memory"); never NULL, also for unknown values. */
RWK_API const char *rwk_status_name(enum rwk_status status);

/* Where and why a call failed. The caller owns it and sets `size` to sizeof(struct rwk_error)
 * before the call. All strings end in NUL, are valid single lines (control characters are
 * replaced), and are truncated if they must be. */
struct rwk_error {
    uint32_t size;
    int32_t status;       /* enum rwk_status */
    int32_t os_error;     /* errno of the operating system's refusal, or 0 */
    uint32_t reserved;
    uint64_t byte_offset; /* into `file`, or UINT64_MAX when not known */
    char file[512];       /* the file at fault, or "" */
    char subject[256];    /* the tensor, config key or option at fault, or "" */
    char message[1024];   /* the whole sentence, beginning with the file or option */
};

/* ----------------------------------------------------------------------------- memory, threads */

/* The host's allocator. Must be callable from any thread. `alignment` is a power of two, at
 * most 64. `alloc` returns NULL when it refuses. `free` gets the size and pointer of an earlier
 * alloc. */
struct rwk_allocator {
    void *(*alloc)(void *user_data, size_t size, size_t alignment);
    void (*free)(void *user_data, void *pointer, size_t size);
    void *user_data;
};

/* A piece of parallel work: run tasks [begin, end) on the worker with the given index (0 <= worker
 * < n_workers). */
typedef void (*rwk_task_fn)(void *arg, uint32_t begin, uint32_t end, uint32_t worker);

/* A host executor: calls fn on disjoint ranges that cover [0, n_tasks), each worker index on one
 * thread at a time, and returns when all of them have returned. Results do not depend on how the
 * range is cut. */
typedef void (*rwk_parallel_fn)(void *user_data, uint32_t n_tasks, rwk_task_fn fn, void *arg);

/* A pool of threads. The thread that calls into the library works too, so a pool of n starts n - 1
 * threads; they inherit the creator's affinity. One pool may serve many sessions; concurrent calls
 * through one pool take turns. */
struct rwk_pool;
RWK_API enum rwk_status rwk_pool_create(struct rwk_pool **ret_pool, uint32_t n_threads,
                                        const struct rwk_allocator *allocator,
                                        struct rwk_error *error);
/* Binds the pool's threads to processors: worker i to cpus[i % n_cpus]. Worker 0, the thread that
 * calls, is the host's to bind. RANGE for a processor that this process may not use: threads before
 * the one in question are bound then. UNSUPPORTED where the system cannot. */
RWK_API enum rwk_status rwk_pool_pin(struct rwk_pool *pool, const uint32_t *cpus, uint32_t n_cpus,
                                     struct rwk_error *error);
/* Ends the threads; the address is set to NULL. No session may be using it. NULL and a null address
 * are fine. */
RWK_API void rwk_pool_close(struct rwk_pool **pool);
RWK_API uint32_t rwk_pool_n_threads(const struct rwk_pool *pool);
/* How many threads are sensible here: the affinity mask bounded by the cgroup quota (rounded down),
 * at least 1. */
RWK_API uint32_t rwk_default_threads(void);

/* Called now and then during long work with what is done of what is to be done, in a unit of the
 * work's own. Returning non-zero cancels the work (RWK_STATUS_CANCELLED). Called on the thread that
 * called the library. */
typedef int (*rwk_progress_fn)(void *user_data, uint64_t done, uint64_t total);

/* ------------------------------------------------------------------------------------- sources */

/* A file in memory. */
struct rwk_blob {
    const char *name; /* as in the directory: "config.json" */
    const void *data; /* any alignment */
    uint64_t size;
};

/* Files that the host finds and opens. What fails returns an errno value, and success 0. Called on
 * the thread that opens the model; map and close also when the model is closed. */
struct rwk_file_functions {
    /* ENOENT: there is no such file (not an error: optional files are asked for, too). */
    int (*open)(void *user_data, const char *name, void **ret_file, uint64_t *ret_size);
    /* All bytes of the file, which stay where they are until `close`; NULL when that fails. May be
     * missing: then files are read. */
    const void *(*map)(void *user_data, void *file);
    /* buffer[0..n) = the n bytes from `offset` on. May be missing: then files are mapped. */
    int (*read)(void *user_data, void *file, uint64_t offset, void *buffer, size_t n);
    void (*close)(void *user_data, void *file);
    void *user_data;
};

/* Where the files of a model or tokenizer come from: exactly one of the three. Needed while the
 * object is opened; blobs that are not copied (RWK_LOAD_READ copies) must stay until it
 * is closed. */
struct rwk_source {
    uint32_t size;
    uint32_t reserved;
    const char *path;             /* a directory */
    const struct rwk_blob *blobs; /* [n_blobs] */
    size_t n_blobs;
    const struct rwk_file_functions *functions;
};
RWK_API void rwk_source_init(struct rwk_source *source);

/* ----------------------------------------------------------------------------------- tokenizer */

/* Turns text into ids and back exactly as the directory's tokenizer files say. Needs no model. */
struct rwk_tokenizer;

struct rwk_tokenizer_options {
    uint32_t size;
    uint32_t reserved;
    const struct rwk_allocator *allocator; /* NULL: malloc */
    uint64_t memory_budget;                /* bytes; 0: no bound */
};
RWK_API void rwk_tokenizer_options_init(struct rwk_tokenizer_options *options);

/* Opens the tokenizer of a directory (tokenizer.json; or vocab.json with merges.txt; or
 * tokenizer.model; with tokenizer_config.json, special_tokens_map.json, added_tokens.json where
 * they matter), or one tokenizer.json or tokenizer.model by its own path. Release with
 * rwk_tokenizer_close. */
RWK_API enum rwk_status rwk_tokenizer_open(struct rwk_tokenizer **ret_tokenizer, const char *path,
                                           const struct rwk_tokenizer_options *options,
                                           struct rwk_error *error);
/* The same from any source; a path may be that of one file here, too. */
RWK_API enum rwk_status rwk_tokenizer_open_source(struct rwk_tokenizer **ret_tokenizer,
                                                  const struct rwk_source *source,
                                                  const struct rwk_tokenizer_options *options,
                                                  struct rwk_error *error);
/* One more reference; returns its argument. */
RWK_API struct rwk_tokenizer *rwk_tokenizer_retain(struct rwk_tokenizer *tokenizer);
/* Drops one reference and sets the address to NULL. */
RWK_API void rwk_tokenizer_close(struct rwk_tokenizer **tokenizer);

/* Number of ids: every valid id is below it (vocabulary and added tokens; holes are possible). */
RWK_API uint32_t rwk_tokenizer_n_tokens(const struct rwk_tokenizer *tokenizer);

#define RWK_TOKEN_NONE UINT32_MAX
enum rwk_special {
    RWK_SPECIAL_BOS = 0,
    RWK_SPECIAL_EOS = 1,
    RWK_SPECIAL_UNK = 2,
    RWK_SPECIAL_PAD = 3
};
/* The id that the tokenizer's files name for a role, or RWK_TOKEN_NONE. */
RWK_API uint32_t rwk_tokenizer_special(const struct rwk_tokenizer *tokenizer,
                                       enum rwk_special role);

enum rwk_encode_flags {
    /* Add what the post-processor adds (often a beginning-of-sequence token). */
    RWK_ENCODE_ADD_SPECIAL = 1,
    /* Special tokens spelled in the text are ordinary text (protects against injection). */
    RWK_ENCODE_PLAIN_SPECIAL = 2
};
/* Bytes [begin, end) of the input that a token covers; begin == end for tokens that were added. */
struct rwk_span {
    uint64_t begin;
    uint64_t end;
};
/* Encodes text[0..size), UTF-8 (invalid bytes are encoded as U+FFFD). Writes at most `capacity` ids
 * (and spans, unless ret_spans is NULL) and always stores the number needed in *ret_count; so
 * capacity 0 asks for the size. */
RWK_API enum rwk_status rwk_tokenizer_encode(const struct rwk_tokenizer *tokenizer,
                                             const char *text, size_t size, uint32_t flags,
                                             uint32_t *ret_ids, size_t capacity,
                                             struct rwk_span *ret_spans, size_t *ret_count,
                                             struct rwk_error *error);

enum rwk_decode_flags {
    RWK_DECODE_SKIP_SPECIAL = 1 /* leave special tokens out of the text */
};
/* Decodes ids into valid UTF-8 (broken sequences become U+FFFD as the tokenizer's decoder says).
 * Writes at most `capacity` bytes, without a terminator, and always stores the number needed. Ids
 * that do not exist are RWK_STATUS_RANGE. */
RWK_API enum rwk_status rwk_tokenizer_decode(const struct rwk_tokenizer *tokenizer,
                                             const uint32_t *ids, size_t n_ids, uint32_t flags,
                                             char *ret_text, size_t capacity, size_t *ret_size,
                                             struct rwk_error *error);

struct rwk_piece {
    const char *text; /* as the vocabulary spells it; lives as long as the tokenizer */
    size_t size;      /* of text, which is not terminated */
    uint32_t added;   /* 1 for added tokens */
    uint32_t special; /* 1 for special tokens */
};
/* RWK_STATUS_RANGE for an id that does not exist. */
RWK_API enum rwk_status rwk_tokenizer_piece(const struct rwk_tokenizer *tokenizer, uint32_t id,
                                            struct rwk_piece *ret_piece);
/* The id of a piece as the vocabulary spells it, or RWK_TOKEN_NONE. */
RWK_API uint32_t rwk_tokenizer_find(const struct rwk_tokenizer *tokenizer, const char *piece,
                                    size_t size);

/* ------------------------------------------------------------------------------ stream decoder */

/* Decodes a growing list of ids and gives out whole characters only, holding back what may still
 * change: an unfinished character, or text that may turn out to be the beginning of a stop text.
 * What it gives out over time, together, is the decoding of the whole list (cut before the first
 * stop text). One owner at a time. */
struct rwk_stream;

RWK_API enum rwk_status rwk_stream_create(struct rwk_stream **ret_stream,
                                          struct rwk_tokenizer *tokenizer, uint32_t decode_flags,
                                          struct rwk_error *error);
RWK_API void rwk_stream_close(struct rwk_stream **stream);
/* Text at whose first occurrence the stream ends. Of several stop texts the earliest match counts.
 * Empty: RANGE. */
RWK_API enum rwk_status rwk_stream_add_stop(struct rwk_stream *stream, const char *text,
                                            size_t size, struct rwk_error *error);
/* Ids that come before the first pushed one: they are context for decoding (blanks, half
 * characters), not output. */
RWK_API enum rwk_status rwk_stream_prime(struct rwk_stream *stream, const uint32_t *ids,
                                         size_t n_ids, struct rwk_error *error);
/* Adds one id. *ret_text points to text that may be shown now (valid until the next call on the
 * stream, not terminated, possibly empty). *ret_stopped becomes 1 once a stop text was met: nothing
 * more will come. */
RWK_API enum rwk_status rwk_stream_push(struct rwk_stream *stream, uint32_t id,
                                        const char **ret_text, size_t *ret_size, int *ret_stopped,
                                        struct rwk_error *error);
/* No more ids will come: gives out what was held back (a broken character as U+FFFD). */
RWK_API enum rwk_status rwk_stream_flush(struct rwk_stream *stream, const char **ret_text,
                                         size_t *ret_size, struct rwk_error *error);

/* --------------------------------------------------------------------------------------- model */

/* How numbers are stored in a safetensors file. */
enum rwk_dtype {
    RWK_DTYPE_F32 = 0,
    RWK_DTYPE_F16 = 1,
    RWK_DTYPE_BF16 = 2,
    RWK_DTYPE_F64 = 3,
    RWK_DTYPE_BOOL = 4,
    RWK_DTYPE_U8 = 5,
    RWK_DTYPE_I8 = 6,
    RWK_DTYPE_U16 = 7,
    RWK_DTYPE_I16 = 8,
    RWK_DTYPE_U32 = 9,
    RWK_DTYPE_I32 = 10,
    RWK_DTYPE_U64 = 11,
    RWK_DTYPE_I64 = 12,
    RWK_DTYPE_F8_E4M3 = 13,
    RWK_DTYPE_F8_E5M2 = 14,
    RWK_DTYPE_OTHER = 15 /* a dtype of the format that has no use here (sub-byte floats, complex) */
};
/* The safetensors name, such as "BF16"; "?" for unknown values. */
RWK_API const char *rwk_dtype_name(enum rwk_dtype dtype);

enum rwk_load_mode {
    RWK_LOAD_MAP = 0,     /* map the files, which must not be written to; read when first used */
    RWK_LOAD_READ = 1,    /* copy them into memory: nothing done to them later can hurt */
    RWK_LOAD_MAP_LOCK = 2 /* map and lock in memory; fails if the system refuses */
};
enum rwk_prefetch {
    RWK_PREFETCH_AUTO = 0, /* ask the system to read ahead in the background */
    RWK_PREFETCH_NONE = 1,
    RWK_PREFETCH_NOW = 2 /* have every page present before opening returns */
};
enum rwk_weights {
    RWK_WEIGHTS_AS_STORED = 0,
    RWK_WEIGHTS_Q8 = 1, /* matrices quantised at load: blocks of 32 with a scale and a minimum, 8
                         * bits a weight, 9 with these; docs/quantisation.md says what is lost */
    RWK_WEIGHTS_Q4 = 2  /* the same with 4 bits, 5 in all */
};
enum rwk_cpu {
    RWK_CPU_AUTO = 0, /* the best that processor and operating system offer */
    RWK_CPU_SCALAR = 1,
    RWK_CPU_AVX2 = 2,
    RWK_CPU_AVX512 = 3,
    RWK_CPU_NEON = 4
};

struct rwk_model_options {
    uint32_t size;
    uint32_t load_mode; /* enum rwk_load_mode */
    uint32_t prefetch;  /* enum rwk_prefetch */
    uint32_t weights;   /* enum rwk_weights */
    uint32_t cpu;       /* enum rwk_cpu; UNSUPPORTED for a level that this machine lacks */
    uint32_t reserved;
    const struct rwk_allocator *allocator; /* NULL: malloc */
    uint64_t memory_budget;                /* bytes it may allocate; 0: no bound */

    /* Position scaling chosen at load time; each replaces what config.json says and is an error
     * where it would not take effect. rope_scaling: JSON as in config.json ({"rope_type": "yarn",
     * "factor": 4.0}), or short: "yarn:4", "ntk:4", "linear:2", "dynamic:4", "llama3:8", "none".
     * NULL: from the config. Where layers with a window have frequencies of their own, all three
     * mean the other layers; JSON by layer type, as in rope_parameters, reaches both. */
    const char *rope_scaling;
    double rope_theta;         /* 0: from the config */
    uint64_t original_context; /* original_max_position_embeddings; 0: from the config */

    struct rwk_pool *pool;    /* threads for work at load (quantising); NULL: the calling thread */
    rwk_progress_fn progress; /* NULL: none; of what is read or brought into memory, in bytes */
    void *progress_data;
};
RWK_API void rwk_model_options_init(struct rwk_model_options *options);

/* A model: weights mapped from disk, immutable, shared by any number of sessions. */
struct rwk_model;

/* Opens the Hugging Face model directory `path` (config.json, model.safetensors or
 * model.safetensors.index.json with its shards). Release with rwk_model_close. */
RWK_API enum rwk_status rwk_model_open(struct rwk_model **ret_model, const char *path,
                                       const struct rwk_model_options *options,
                                       struct rwk_error *error);
/* The same from any source. Of files in memory RWK_LOAD_MAP makes no copy, and RWK_LOAD_MAP_LOCK is
 * UNSUPPORTED. */
RWK_API enum rwk_status rwk_model_open_source(struct rwk_model **ret_model,
                                              const struct rwk_source *source,
                                              const struct rwk_model_options *options,
                                              struct rwk_error *error);
RWK_API struct rwk_model *rwk_model_retain(struct rwk_model *model);
/* Drops one reference and sets the address to NULL; sessions hold references of their own. */
RWK_API void rwk_model_close(struct rwk_model **model);

struct rwk_model_info {
    uint32_t size; /* set by the caller to sizeof(struct rwk_model_info) */
    uint32_t n_layers;
    uint32_t hidden_size;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t intermediate_size;
    uint32_t vocab_size;
    uint64_t context;       /* positions for which the plan is valid; UINT64_MAX: no bound */
    uint64_t context_limit; /* positions that exist (rows of a table); UINT64_MAX: no bound */
    uint64_t n_parameters;
    uint64_t mapped_bytes;       /* of weight files that are used where they are */
    uint64_t copied_bytes;       /* of files read, widened norms, quantised matrices */
    const char *family;          /* such as "llama"; these strings live as long as the model */
    const char *position_scheme; /* such as "rope" */
    const char *isa;             /* kernels in use, such as "avx2" */
};
RWK_API enum rwk_status rwk_model_get_info(const struct rwk_model *model,
                                           struct rwk_model_info *ret_info);

struct rwk_tensor_info {
    const char *name; /* these pointers live as long as the model */
    const char *file;
    uint32_t dtype; /* enum rwk_dtype */
    uint32_t n_dims;
    const uint64_t *shape;
    const void *data; /* little-endian, as stored; not necessarily aligned */
    uint64_t n_bytes;
    uint32_t used; /* 1: bound by the family; 0: not needed */
    uint32_t reserved;
};
RWK_API size_t rwk_model_n_tensors(const struct rwk_model *model);
RWK_API enum rwk_status rwk_model_get_tensor(const struct rwk_model *model, size_t index,
                                             struct rwk_tensor_info *ret_info);

/* What generation_config.json (or, failing it, config.json) sets. */
struct rwk_generation_defaults {
    uint32_t size; /* set by the caller */
    uint32_t do_sample;
    uint32_t max_new_tokens; /* 0: not set */
    int32_t top_k;           /* 0: off */
    double temperature;
    double top_p;
    double min_p;
    double repetition_penalty;
    uint32_t bos_token; /* RWK_TOKEN_NONE: not set */
    uint32_t n_eos_tokens;
    const uint32_t *eos_tokens; /* lives as long as the model */
};
RWK_API enum rwk_status rwk_model_get_generation_defaults(
    const struct rwk_model *model, struct rwk_generation_defaults *ret_defaults);

/* Writes the model of directory `from`, its matrices quantised, as a new directory `to`: all
 * weights in one safetensors file, config.json with a "quantization_config" of method "ropewalk",
 * and the tokenizer's files and other small ones as they are. Opened, it gives what opening `from`
 * with the same options->weights gives, without the work and the memory. options: weights (Q8 or
 * Q4; anything else is RANGE), pool, progress, allocator and memory_budget count. A model that lies
 * at `to` is never overwritten (IO); files that could not be finished do not appear. */
RWK_API enum rwk_status rwk_quantize(const char *from, const char *to,
                                     const struct rwk_model_options *options,
                                     struct rwk_error *error);

/* One safetensors file on its own, checked as strictly as a model's. */
struct rwk_tensor_file;
RWK_API enum rwk_status rwk_tensor_file_open(struct rwk_tensor_file **ret_file, const char *path,
                                             const struct rwk_allocator *allocator,
                                             struct rwk_error *error);
RWK_API void rwk_tensor_file_close(struct rwk_tensor_file **file);
RWK_API size_t rwk_tensor_file_n_tensors(const struct rwk_tensor_file *file);
RWK_API enum rwk_status rwk_tensor_file_get(const struct rwk_tensor_file *file, size_t index,
                                            struct rwk_tensor_info *ret_info);

/* ----------------------------------------------------------------------------------- positions */

/* The effective position plan of a model: what its config and the options come to. Needs no
 * weights. */
struct rwk_position_plan;

/* `path`: a model directory or one config.json. Only the position options of `options` count. */
RWK_API enum rwk_status rwk_position_resolve(struct rwk_position_plan **ret_plan, const char *path,
                                             const struct rwk_model_options *options,
                                             struct rwk_error *error);
/* The same from any source. */
RWK_API enum rwk_status rwk_position_resolve_source(struct rwk_position_plan **ret_plan,
                                                    const struct rwk_source *source,
                                                    const struct rwk_model_options *options,
                                                    struct rwk_error *error);
RWK_API void rwk_position_plan_close(struct rwk_position_plan **plan);

struct rwk_position_info {
    uint32_t size;     /* set by the caller */
    uint32_t n_tables; /* frequency tables (0 unless rope) */
    const char *family;
    const char *scheme; /* "none", "learned", "sinusoidal", "rope", "alibi" */
    uint64_t context;   /* positions for which the plan is valid; UINT64_MAX: no bound of its own */
    uint64_t context_limit; /* hard bound, UINT64_MAX: none */
    uint32_t n_slopes;      /* ALiBi: one per head, else 0 */
    uint32_t interleaved;   /* rope pairs (2m, 2m+1) instead of (m, m + r/2) */
    const float *slopes;
};
RWK_API enum rwk_status rwk_position_get_info(const struct rwk_position_plan *plan,
                                              struct rwk_position_info *ret_info);

struct rwk_position_table {
    uint32_t size;         /* set by the caller */
    uint32_t n_pairs;      /* rotated pairs = rotary dimension / 2 */
    const char *name;      /* "all", or the layer type: "full_attention", "sliding_attention" */
    const char *scaling;   /* "default", "linear", "dynamic", "ntk", "yarn", "llama3", "longrope" */
    const float *inv_freq; /* [n_pairs] radians per position, at the shortest length */
    const float *long_inv_freq; /* [n_pairs] longrope beyond its original context; NULL otherwise */
    double theta;
    double factor;             /* 1 where there is none */
    double attention_factor;   /* on cos and sin */
    uint64_t original_context; /* 0 where the scaling has none */
};
RWK_API enum rwk_status rwk_position_get_table(const struct rwk_position_plan *plan, uint32_t index,
                                               struct rwk_position_table *ret_table);

/* ------------------------------------------------------------------------------------- sampler */

/* The host's own stage: changes a copy of the logits as it likes. -INFINITY forbids a token. */
typedef void (*rwk_adjust_fn)(void *user_data, float *logits, size_t n_logits);

/* Draws tokens from logits. Stages in the reference's order: the host's stage; repetition penalty;
 * then, when sampling, temperature, top-k, top-p, min-p; softmax and one draw. The random numbers
 * come from a counter-based generator (SplitMix64 of seed and counter), so a state is two integers.
 */
struct rwk_sampler_options {
    uint32_t size;
    int32_t top_k;             /* <= 0 or >= vocabulary: off */
    double temperature;        /* 0: greedy (ties to the lowest id; the seed does not matter) */
    double top_p;              /* in [0, 1]; 1: off; 0: the best token only */
    double min_p;              /* in [0, 1]; 0: off; relative to the best token's probability */
    double repetition_penalty; /* > 0; 1: off; each distinct token of the history counts once */
    uint64_t seed;
    const struct rwk_allocator *allocator; /* NULL: malloc */
    rwk_adjust_fn adjust;                  /* NULL: none */
    void *adjust_data;
};
/* Greedy, everything off, seed 0. */
RWK_API void rwk_sampler_options_init(struct rwk_sampler_options *options);

struct rwk_sampler;
/* RANGE when an option is outside its bounds (NaN included); the error names it. */
RWK_API enum rwk_status rwk_sampler_create(struct rwk_sampler **ret_sampler,
                                           const struct rwk_sampler_options *options,
                                           struct rwk_error *error);
RWK_API void rwk_sampler_close(struct rwk_sampler **sampler);

struct rwk_sample {
    uint32_t token;
    uint32_t rank;  /* 0: the token was the likeliest one of the unmodified logits */
    double logprob; /* natural log of its probability under the unmodified logits */
};
/* Draws one token from logits [n_logits], which stay unchanged. `history` (may be NULL with 0):
 * tokens that the repetition penalty counts, prompt included. NUMERIC when a logit is NaN or
 * infinite, or when the host's stage has made it so or has forbidden every token. */
RWK_API enum rwk_status rwk_sampler_sample(struct rwk_sampler *sampler, const float *logits,
                                           size_t n_logits, const uint32_t *history,
                                           size_t n_history, struct rwk_sample *ret_sample,
                                           struct rwk_error *error);
/* The generator's state: {seed, number of draws so far}. */
RWK_API void rwk_sampler_get_state(const struct rwk_sampler *sampler, uint64_t ret_state[2]);
RWK_API void rwk_sampler_set_state(struct rwk_sampler *sampler, const uint64_t state[2]);

/* ------------------------------------------------------------------------------------- session */

/* How keys and values are kept. */
enum rwk_kv_type {
    RWK_KV_F16 = 0,
    RWK_KV_F32 = 1,
    RWK_KV_BF16 = 2,
    RWK_KV_Q8 = 3 /* blocks of 32 with a scale */
};
enum rwk_activations {
    RWK_ACTIVATIONS_AUTO = 0, /* integers where weights are quantised, float32 elsewhere */
    RWK_ACTIVATIONS_F32 = 1,  /* float32 everywhere: exact, and slow beside quantised weights */
    RWK_ACTIVATIONS_INT8 = 2  /* integers, of 8 bits beside Q4, of 12 beside Q8; UNSUPPORTED where no
                               * weights are quantised */
};

struct rwk_session_options {
    uint32_t size;
    uint32_t kv_type;     /* enum rwk_kv_type */
    uint64_t context;     /* positions; 0: the model's plan, bounded to 32768 */
    uint32_t chunk;       /* rows per pass over the weights; 0: 512. Results do not depend on it. */
    uint32_t activations; /* enum rwk_activations */
    struct rwk_pool *pool;    /* threads; NULL: the calling thread only (or `parallel`) */
    rwk_parallel_fn parallel; /* the host's executor instead of a pool */
    void *parallel_data;
    uint32_t n_workers; /* of the host's executor */
    uint32_t reserved;
    const struct rwk_allocator *allocator; /* NULL: malloc */
    uint64_t memory_budget;                /* bytes; 0: no bound */
    rwk_progress_fn progress;              /* of prefill in tokens, of states in bytes */
    void *progress_data;
};
RWK_API void rwk_session_options_init(struct rwk_session_options *options);

/* One sequence of tokens and what was computed for it. Retains its model. All memory is allocated
 * here: evaluating allocates nothing, but for the logits of RWK_EVAL_ALL_LOGITS. */
struct rwk_session;

RWK_API enum rwk_status rwk_session_create(struct rwk_session **ret_session,
                                           struct rwk_model *model,
                                           const struct rwk_session_options *options,
                                           struct rwk_error *error);
RWK_API void rwk_session_close(struct rwk_session **session);

struct rwk_memory_plan {
    uint32_t size; /* set by the caller */
    uint32_t reserved;
    uint64_t mapped_bytes;  /* weight files */
    uint64_t copied_bytes;  /* weights in memory of our own; part of model_bytes */
    uint64_t kv_bytes;      /* the cache when full */
    uint64_t scratch_bytes; /* everything else of the session */
    uint64_t total_bytes;   /* model + kv + scratch: what the allocator is asked for, exactly */
    uint64_t model_bytes;   /* of the open model: copied weights, tables, lists of tensors */
};
/* What a session with these options will need, before anything is allocated. A fork needs at most
 * as much again. */
RWK_API enum rwk_status rwk_session_plan(const struct rwk_model *model,
                                         const struct rwk_session_options *options,
                                         struct rwk_memory_plan *ret_plan, struct rwk_error *error);

/* The same before a model is opened: from the headers of its files, reading no weights and
 * allocating nothing that lasts. For weights quantised at load the total is good to 64 KiB and a
 * line of 128 bytes for each matrix. */
RWK_API enum rwk_status rwk_plan(const struct rwk_source *source,
                                 const struct rwk_model_options *model_options,
                                 const struct rwk_session_options *session_options,
                                 struct rwk_memory_plan *ret_plan, struct rwk_error *error);

/* ------------------------------------------------------------------------------- session: work */

enum rwk_eval_flags {
    RWK_EVAL_ALL_LOGITS = 1 /* keep the logits of every token of this call, not only of its last */
};
/* Appends tokens[0..n) to the sequence and evaluates them. Logits of the last one (of all, with the
 * flag, for which memory is allocated when it has not been before) can be had until the next call.
 * On failure (RANGE: an id not below vocab_size; CONTEXT_FULL; NOMEM; IO: a mapped file of the
 * model's was cut) the session stands where it did before the call. After CANCELLED the whole
 * tokens done so far stay, their number is in *ret_done (which may be NULL), and there are no
 * logits until the next call. */
RWK_API enum rwk_status rwk_session_eval(struct rwk_session *session, const uint32_t *tokens,
                                         size_t n, uint32_t flags, size_t *ret_done,
                                         struct rwk_error *error);

/* Makes the sequence equal tokens[0..n), keeping what it has in common with the present one, and
 * leaves the last token's logits. *ret_reused (may be NULL): tokens whose computation was kept.
 * Results are those of a fresh session, bit for bit. RANGE, CONTEXT_FULL: nothing has changed;
 * CANCELLED: the sequence is as much of tokens[0..n) as was done. */
RWK_API enum rwk_status rwk_session_sync(struct rwk_session *session, const uint32_t *tokens,
                                         size_t n, size_t *ret_reused, struct rwk_error *error);

/* Draws a token from the last logits (the sequence is the history that a repetition penalty
 * counts), appends it and evaluates it. CONTEXT_FULL when no position is left for it. RANGE when
 * there are no logits to draw from. On failure neither sequence nor sampler have changed; the last
 * logits are gone after CANCELLED only. */
RWK_API enum rwk_status rwk_session_next(struct rwk_session *session, struct rwk_sampler *sampler,
                                         struct rwk_sample *ret_sample, struct rwk_error *error);

/* Logits [vocab_size] after token `index` of the last eval call (0-based within that call), or NULL
 * when they were not kept; RWK_LAST: after the sequence's last token, whichever call computed it.
 * Valid until the next call that changes the session. */
#define RWK_LAST SIZE_MAX
RWK_API const float *rwk_session_logits(const struct rwk_session *session, size_t index);

RWK_API uint64_t rwk_session_position(const struct rwk_session *session); /* tokens so far */
RWK_API uint64_t rwk_session_context(const struct rwk_session *session);  /* positions there are */
/* The tokens evaluated so far, [position]. */
RWK_API const uint32_t *rwk_session_tokens(const struct rwk_session *session);

/* Forgets everything from `position` on, logits too. RANGE beyond the present position. Where a
 * sliding window has already dropped keys that are needed again, the next evaluation computes them
 * anew from the tokens; results are the same. */
RWK_API enum rwk_status rwk_session_rewind(struct rwk_session *session, uint64_t position,
                                           struct rwk_error *error);

/* Makes room in a full context: drops n tokens after the first `keep`, which leaves position - n.
 * What stays is moved, not computed again: it was computed while the dropped tokens were still
 * seen, so what follows is not what the remaining tokens alone would give (rwk_session_sync and
 * rwk_session_rewind to `keep` or before lead back to that). UNSUPPORTED where positions are part
 * of what is cached: all schemes but "alibi" and "none". RANGE unless keep and n are multiples of
 * 64 and the sequence has keep + n tokens. The last logits stay. */
RWK_API enum rwk_status rwk_session_shift(struct rwk_session *session, uint64_t keep, uint64_t n,
                                          struct rwk_error *error);

/* A second session with the same past, options and last logits; pages of the cache are shared until
 * one of the two writes to them. The two may then be used from different threads. */
RWK_API enum rwk_status rwk_session_fork(struct rwk_session **ret_session,
                                         struct rwk_session *session, struct rwk_error *error);

/* Appends one token to each of n sessions of one model in one pass over the weights; logits then
 * are as after rwk_session_eval. Bit-identical to evaluating each alone. Work runs on sessions[0]'s
 * threads, and it is sessions[0] that can be cancelled; its context must be the largest. MISMATCH
 * for sessions of different models or cache types, BUSY for a session that is given twice. On
 * failure no sequence has changed; after CANCELLED there are no logits. */
RWK_API enum rwk_status rwk_step(struct rwk_session *const *sessions, const uint32_t *tokens,
                                 size_t n, struct rwk_error *error);

/* Asks a running eval, sync, score, step or save to stop soon; may be called from any thread (and
 * from a signal handler of the host's). One that has not begun yet is stopped at once. Cleared when
 * the call returns. */
RWK_API void rwk_session_cancel(struct rwk_session *session);

/* ----------------------------------------------------------------------------- session: scores */

/* Natural-log probability of each of tokens[1..n) given those before it, evaluated from the
 * session's present position: ret_logprobs[i] belongs to tokens[i + 1], n - 1 in all. Appends all n
 * tokens and leaves the last one's logits. Errors as rwk_session_eval's, and NUMERIC (the session
 * has not changed) when a log-probability is not finite; what stands in ret_logprobs then is
 * undefined. */
RWK_API enum rwk_status rwk_session_score(struct rwk_session *session, const uint32_t *tokens,
                                          size_t n, double *ret_logprobs, struct rwk_error *error);
/* The same with ranks, and with the top_k likeliest tokens in each place: ret_scores [n - 1] as
 * above, ret_top [n - 1][top_k] with the likeliest first (NULL when top_k is 0). */
RWK_API enum rwk_status rwk_session_score_top(struct rwk_session *session, const uint32_t *tokens,
                                              size_t n, uint32_t top_k,
                                              struct rwk_sample *ret_scores,
                                              struct rwk_sample *ret_top, struct rwk_error *error);

/* ----------------------------------------------------------------------------- session: states */

/* Takes the next `size` bytes; gives 0, or an errno value to end the work. */
typedef int (*rwk_write_fn)(void *user_data, const void *data, size_t size);
/* buffer[0..*ret_size) = the next bytes, fewer than `size` only at the end; 0 or an errno value. */
typedef int (*rwk_read_fn)(void *user_data, void *buffer, size_t size, size_t *ret_size);

/* Writes what a session has computed, so that it can be continued elsewhere with the same bits:
 * tokens, last logits, cache. The session does not change. The format stands in runtime/state.c; it
 * has a version, a fingerprint of the model, and checksums. Tells the progress in bytes to the
 * session's callback, and can be cancelled like an eval. */
RWK_API enum rwk_status rwk_session_save(struct rwk_session *session, rwk_write_fn write,
                                         void *write_data, struct rwk_error *error);
/* Makes a session from a saved one. The options may differ in everything but kv_type and
 * activations; their progress callback is told of the bytes read. MISMATCH: another model, other
 * options of it, or another kv_type; CONTEXT_FULL: more tokens than the context has positions;
 * FORMAT: damaged or no state; IO: what the reader said. Nothing is made in any of these cases. */
RWK_API enum rwk_status rwk_session_load(struct rwk_session **ret_session, struct rwk_model *model,
                                         const struct rwk_session_options *options,
                                         rwk_read_fn read, void *read_data,
                                         struct rwk_error *error);
/* The same with files. A file is replaced as a whole: when saving fails or is interrupted, the old
 * one stays. It is readable for its owner only. */
RWK_API enum rwk_status rwk_session_save_file(struct rwk_session *session, const char *path,
                                              struct rwk_error *error);
RWK_API enum rwk_status rwk_session_load_file(struct rwk_session **ret_session,
                                              struct rwk_model *model,
                                              const struct rwk_session_options *options,
                                              const char *path, struct rwk_error *error);

/* ------------------------------------------------------------------------- session: statistics */

/* What a session did and holds. */
struct rwk_session_stats {
    uint32_t size;              /* set by the caller */
    uint32_t reserved;
    uint64_t evaluated_tokens;  /* appended and computed */
    uint64_t recomputed_tokens; /* again: other frequencies, or keys that a window dropped */
    uint64_t reused_tokens;     /* that rwk_session_sync found done */
    uint64_t dropped_tokens;    /* by rwk_session_shift */
    uint64_t passes;            /* over the weights, run on this session's threads */
    uint64_t eval_ns;           /* wall-clock time in evaluation, in nanoseconds */
    uint64_t cache_pages;       /* of 64 positions each, for each window size of the model */
    uint64_t shared_pages;      /* of these, shared with forks */
    uint64_t copied_pages;      /* that were shared and had to be copied before writing */
    uint64_t memory_bytes;      /* asked of the allocator and still held (a fork: at most) */
};
/* Of the session's owner. A fork begins at 0. */
RWK_API enum rwk_status rwk_session_get_stats(const struct rwk_session *session,
                                              struct rwk_session_stats *ret_stats);

/* ---------------------------------------------------------------------------- options as words */

/* Every option of the three structs above that a word can say, as a table: for command lines,
 * configuration files and bindings. A new option is a new row, and changes nothing for who walks
 * the table. Keys are the fields' names; session_budget is the session's memory_budget. */
enum rwk_option_object {
    RWK_OPTION_OF_MODEL = 0,
    RWK_OPTION_OF_SESSION = 1,
    RWK_OPTION_OF_SAMPLER = 2
};
enum rwk_option_type {
    RWK_OPTION_COUNT = 0, /* digits only */
    RWK_OPTION_REAL = 1,  /* decimal, with a point in every locale */
    RWK_OPTION_TEXT = 2,  /* not empty */
    RWK_OPTION_CHOICE = 3 /* one of some names */
};
struct rwk_choice {
    const char *name;
    uint32_t value;
};
struct rwk_option {
    const char *key;
    uint32_t object;           /* enum rwk_option_object */
    uint32_t type;             /* enum rwk_option_type */
    const char *argument;      /* as a usage text shows it; NULL for choices */
    const char *help;          /* one line */
    uint64_t min, max;         /* of counts */
    double real_min, real_max; /* of reals; the smallest positive double stands for "above 0" */
    const struct rwk_choice *choices; /* ends with a NULL name */
};
RWK_API size_t rwk_n_options(void);
RWK_API const struct rwk_option *rwk_option_at(size_t index);      /* NULL beyond the last */
RWK_API const struct rwk_option *rwk_option_find(const char *key); /* NULL: there is none */

/* Sets the option that `key` names from its value in words. RANGE, naming the key, when it is no
 * option of this struct or the value is outside its bounds; nothing is set then. Texts are not
 * copied: they must live as long as the struct is used. */
RWK_API enum rwk_status rwk_model_options_set(struct rwk_model_options *options, const char *key,
                                              const char *value, struct rwk_error *error);
RWK_API enum rwk_status rwk_session_options_set(struct rwk_session_options *options,
                                                const char *key, const char *value,
                                                struct rwk_error *error);
RWK_API enum rwk_status rwk_sampler_options_set(struct rwk_sampler_options *options,
                                                const char *key, const char *value,
                                                struct rwk_error *error);
/* The parser behind them, also for rows of the caller's own: *ret_value is a uint64_t (count), a
 * double (real), a uint32_t (choice) or a const char * to `text` itself (text). */
RWK_API enum rwk_status rwk_option_parse(const struct rwk_option *option, const char *text,
                                         size_t size, void *ret_value, struct rwk_error *error);

/* ---------------------------------------------------------------------------------------- JSON */

/* Decodes one JSON string literal (with its quotes) at the start of text[0..size), as the command's
 * line-wise input needs it: writes at most `capacity` bytes of UTF-8 and stores the number needed,
 * and in *ret_consumed the literal's length. */
RWK_API enum rwk_status rwk_json_string_decode(const char *text, size_t size, char *ret_text,
                                               size_t capacity, size_t *ret_size,
                                               size_t *ret_consumed, struct rwk_error *error);

#ifdef __cplusplus
}
#endif
#endif
