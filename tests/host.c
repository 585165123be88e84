/* A host that runs under a locale of its own choice: prints, as they lie in memory, the frequencies
 * and the logits that it gets. usage: host MODEL LOCALE */
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

/* With a scaling in JSON and a base that need fractions, where the scheme has them. */
static int write_frequencies(const char *path)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_position_plan *plan = NULL;
    struct rwk_position_info info = { .size = sizeof info };
    struct rwk_position_table table = { .size = sizeof table };
    struct rwk_model_options options;
    if (rwk_position_resolve(&plan, path, NULL, &error))
        return fail(error.message);
    rwk_position_get_info(plan, &info);
    rwk_position_plan_close(&plan);
    if (info.n_tables == 0)
        return 0;
    rwk_model_options_init(&options);
    options.rope_scaling = "{\"rope_type\": \"linear\", \"factor\": 2.5}";
    if (rwk_position_resolve(&plan, path, &options, &error))
        return fail(error.message);
    rwk_position_get_table(plan, 0, &table);
    if (table.factor != 2.5)
        return fail("the factor 2.5 was read as another number");
    fwrite(table.inv_freq, sizeof *table.inv_freq, table.n_pairs, stdout);
    rwk_position_plan_close(&plan);
    return 0;
}

static int write_logits(const char *path)
{
    static const uint32_t ids[] = { 5, 6, 7, 8, 9, 10, 11 };
    struct rwk_error error = { .size = sizeof error };
    struct rwk_model *model = NULL;
    struct rwk_session *session = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    size_t n = sizeof ids / sizeof *ids;
    if (rwk_model_open(&model, path, NULL, &error) ||
        rwk_session_create(&session, model, NULL, &error) ||
        rwk_session_eval(session, ids, n, 0, NULL, &error))
        return fail(error.message);
    rwk_model_get_info(model, &info);
    fwrite(rwk_session_logits(session, n - 1), sizeof(float), info.vocab_size, stdout);
    rwk_session_close(&session);
    rwk_model_close(&model);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3 || !setlocale(LC_ALL, argv[2]))
        return fail("no such locale");
    if (strcmp(localeconv()->decimal_point, strcmp(argv[2], "C") ? "," : ".") != 0)
        return fail("the locale has another decimal point");
    return write_frequencies(argv[1]) || write_logits(argv[1]) || ferror(stdout) ||
           fclose(stdout) != 0;
}
