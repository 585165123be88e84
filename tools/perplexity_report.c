/* Measurements -> a table or JSON on standard output, CSV, and a plot. */
#include <inttypes.h>
#include <string.h>
#include "output.h"
#include "perplexity.h"
#include "plot.h"
#include "tool.h"

static const char *scaling_name(const struct measurement *m)
{
    return m->rope_scaling ? m->rope_scaling : "as configured";
}

/* ---- table ---- */

static int widest(const struct measurements *m, const char *(*name)(const struct measurement *),
                  const char *head)
{
    size_t width = strlen(head);
    for (size_t i = 0; i < m->n; i++)
        width = strlen(name(&m->items[i])) > width ? strlen(name(&m->items[i])) : width;
    return (int)width;
}

static const char *model_name(const struct measurement *m) { return m->model; }

static void print_table(const struct measurements *m)
{
    int model = widest(m, model_name, "model"), scaling = widest(m, scaling_name, "rope scaling");
    out_print("%-*s  %-*s %8s %8s %10s %12s\n", model, "model", scaling, "rope scaling", "length",
              "windows", "tokens", "perplexity");
    for (size_t i = 0; i < m->n; i++) {
        const struct measurement *r = &m->items[i];
        out_print("%-*s  %-*s %8" PRIu64 " %8" PRIu64 " %10" PRIu64 " %12.4f\n", model, r->model,
                  scaling, scaling_name(r), r->length, r->n_windows, r->all.n_tokens,
                  perplexity_of(&r->all));
        for (size_t k = 0; k < r->n_buckets; k++) {
            const struct bucket *b = &r->buckets[k];
            if (b->n_tokens)
                out_print("%*s positions %6" PRIu64 " to %6" PRIu64 " %10" PRIu64 " %12.4f\n",
                          model + scaling - 7, "", b->begin, b->end - 1, b->n_tokens,
                          perplexity_of(b));
        }
    }
}

/* ---- JSON ---- */

static void json_buckets(struct json *json, const struct measurement *r)
{
    json_array(json, "buckets");
    for (size_t k = 0; k < r->n_buckets; k++) {
        const struct bucket *b = &r->buckets[k];
        json_object(json, NULL);
        json_count(json, "first_position", b->begin);
        json_count(json, "last_position", b->end - 1);
        json_count(json, "tokens", b->n_tokens);
        json_real(json, "perplexity", perplexity_of(b)); /* null where nothing was scored */
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void print_json(const struct measurements *m)
{
    struct json json = { 0 };
    json_object(&json, NULL);
    json_array(&json, "results");
    for (size_t i = 0; i < m->n; i++) {
        const struct measurement *r = &m->items[i];
        json_object(&json, NULL);
        json_string(&json, "model", r->model);
        json_string(&json, "rope_scaling", r->rope_scaling);
        json_count(&json, "length", r->length);
        json_count(&json, "windows", r->n_windows);
        json_count(&json, "tokens", r->all.n_tokens);
        json_real(&json, "perplexity", perplexity_of(&r->all));
        json_real(&json, "nll", r->all.nll / (double)r->all.n_tokens);
        if (r->n_buckets)
            json_buckets(&json, r);
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_end(&json, '}');
}

/* ---- CSV (RFC 4180) ---- */

static void csv_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void csv_row(FILE *file, const struct measurement *r, const struct bucket *b)
{
    char number[NUMBER_SIZE];
    csv_text(file, r->model);
    fputc(',', file);
    csv_text(file, r->rope_scaling ? r->rope_scaling : "");
    fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s\n", r->length, b->begin,
            b->end - 1, b->n_tokens, format_double(number, perplexity_of(b)));
}

static void write_csv(const struct measurements *m, const char *path)
{
    FILE *file = file_open(path);
    fputs("model,rope_scaling,length,first_position,last_position,tokens,perplexity\n", file);
    for (size_t i = 0; i < m->n; i++) {
        const struct measurement *r = &m->items[i];
        csv_row(file, r, &r->all);
        for (size_t k = 0; k < r->n_buckets; k++)
            if (r->buckets[k].n_tokens)
                csv_row(file, r, &r->buckets[k]);
    }
    file_close(file, path);
}

/* ---- plot ---- */

static bool same_line(const struct measurement *a, const struct measurement *b)
{
    return a->model == b->model && a->rope_scaling == b->rope_scaling;
}

static void line_begin(struct plot *plot, const struct measurement *r, bool with_length)
{
    char title[512], length[32] = "";
    if (with_length)
        snprintf(length, sizeof length, ", length %" PRIu64, r->length);
    snprintf(title, sizeof title, "%s, %s%s", r->model, scaling_name(r), length);
    plot_line(plot, title);
}

/* Perplexity over length, one line per model and scaling; with buckets, over position, one line
 * per measurement. */
static void draw(const struct measurements *m, const struct options *o)
{
    struct plot plot;
    bool by_position = o->buckets != 0;
    plot_begin(&plot, o->plot, by_position ? "position in the window" : "length in tokens",
               "perplexity");
    for (size_t i = 0; i < m->n; i++) {
        const struct measurement *r = &m->items[i];
        if (by_position || i == 0 || !same_line(r, r - 1))
            line_begin(&plot, r, by_position);
        if (!by_position)
            plot_point(&plot, (double)r->length, perplexity_of(&r->all));
        for (size_t k = 0; k < r->n_buckets; k++)
            if (r->buckets[k].n_tokens)
                plot_point(&plot, (double)(r->buckets[k].begin + r->buckets[k].end - 1) / 2,
                           perplexity_of(&r->buckets[k]));
    }
    plot_end(&plot);
}

/* ---- all of it ---- */

void report_check(const struct options *o)
{
    if (o->plot)
        plot_check(o->plot);
}

void report(const struct measurements *m, const struct options *o)
{
    if (o->json)
        print_json(m);
    else
        print_table(m);
    if (o->csv)
        write_csv(m, o->csv);
    if (o->plot)
        draw(m, o);
}
