/* Opens a model whose files lie in memory, within a budget that was planned for, and asks what it
 * holds. usage: memory MODEL */
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rwk_error error = { .size = sizeof error };

static void check(enum rwk_status status)
{
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

/* A real host has its files in an archive, a resource section or a download. */
static struct rwk_blob read_file(const char *directory, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        exit(1);
    long size = ftell(file);
    char *data = malloc((size_t)size + 1);
    rewind(file);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
        exit(1);
    fclose(file);
    return (struct rwk_blob) { name, data, (uint64_t)size };
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "config.json", "model.safetensors", "tokenizer.json" };
    enum { N = sizeof names / sizeof *names };
    struct rwk_blob blobs[N];
    struct rwk_source source;
    struct rwk_memory_plan plan = { .size = sizeof plan };
    struct rwk_session_options options;
    struct rwk_session_stats stats = { .size = sizeof stats };
    struct rwk_model *model = NULL;
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session *session = NULL;

    if (argc != 2)
        return 2;
    for (size_t i = 0; i < N; i++)
        blobs[i] = read_file(argv[1], names[i]);
    rwk_source_init(&source);
    source.blobs = blobs;
    source.n_blobs = N;

    rwk_session_options_init(&options);
    options.context = 512;
    options.kv_type = RWK_KV_BF16;
    check(rwk_plan(&source, NULL, &options, &plan, &error)); /* before anything is opened */
    options.memory_budget = plan.kv_bytes + plan.scratch_bytes;

    check(rwk_model_open_source(&model, &source, NULL, &error)); /* uses the bytes where they are */
    check(rwk_tokenizer_open_source(&tokenizer, &source, NULL, &error));
    check(rwk_session_create(&session, model, &options, &error));
    check(rwk_session_get_stats(session, &stats));
    printf("weights used in place: %llu bytes\n", (unsigned long long)plan.mapped_bytes);
    printf("session: planned %llu, holds %llu\n", (unsigned long long)options.memory_budget,
           (unsigned long long)stats.memory_bytes);

    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    for (size_t i = 0; i < N; i++) /* not before the model is closed */
        free((void *)blobs[i].data);
    return 0;
}
