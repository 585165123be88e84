/* A model directory -> the same with quantised weights. */
#include "commands.h"
#include "load.h"
#include "progress.h"
#include "tool.h"

int run_quantize(const struct options *o)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_model_options options;
    struct progress progress;
    struct rwk_pool *pool = pool_open(o);
    if (o->weights == RWK_WEIGHTS_AS_STORED)
        usage_error("quantize", "--type q8 or --type q4 is needed");
    progress_start(&progress, "quantize", o->quiet);
    model_options(&options, o, NULL);
    options.pool = pool;
    options.progress = progress_update;
    options.progress_data = &progress;
    check(rwk_quantize(o->arguments[0], o->arguments[1], &options, &error), &error);
    progress_clear();
    rwk_pool_close(&pool);
    return EXIT_DONE;
}
