/* Errors, and turning options into the library's. */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

int fail_error(const struct rwk_error *error)
{
    fprintf(stderr, "ropewalk: %s\n", error->message[0] ? error->message : rwk_status_name((enum rwk_status)error->status));
    return EXIT_FAILED;
}

int fail(const char *format, ...)
{
    va_list args;
    fputs("ropewalk: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_FAILED;
}

void notice(const struct options *options, const char *format, ...)
{
    va_list args;
    if (options->quiet)
        return;
    fputs("ropewalk: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void model_options(const struct options *options, const char *rope_scaling, struct rwk_model_options *ret)
{
    rwk_model_options_init(ret);
    ret->load_mode = options->load_mode;
    ret->weights = options->weights;
    ret->cpu = options->cpu;
    ret->rope_scaling = rope_scaling;
    ret->rope_theta = options->rope_theta;
    ret->original_context = options->original_context;
}

void session_options(const struct options *options, struct rwk_pool *pool, struct rwk_session_options *ret)
{
    rwk_session_options_init(ret);
    ret->kv_type = options->kv_type;
    ret->chunk = (uint32_t)options->chunk;
    ret->activations = options->activations;
    ret->context = options->context;
    ret->pool = pool;
}

int open_pool(const struct options *options, struct rwk_pool **ret)
{
    struct rwk_error error = { .size = sizeof error };
    uint32_t n = options->threads ? (uint32_t)options->threads : rwk_default_threads();
    return rwk_pool_create(ret, n, NULL, &error) ? fail_error(&error) : EXIT_DONE;
}

int check_context(const struct options *options, const struct rwk_model *model, uint64_t context)
{
    struct rwk_model_info info = { .size = sizeof info };
    rwk_model_get_info(model, &info);
    if (context > info.context_limit)
        return fail("context: %llu positions are wanted, but the model's table of positions ends at %llu",
                    (unsigned long long)context, (unsigned long long)info.context_limit);
    if (context > info.context)
        notice(options, "%llu positions go beyond the %llu that the model's position plan is made for",
               (unsigned long long)context, (unsigned long long)info.context);
    return EXIT_DONE;
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int finish_output(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return status ? status : fail("standard output: %s", strerror(errno));
    return status;
}
