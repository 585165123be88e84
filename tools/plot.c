/* points -> a gnuplot script -> a picture. Data lines are inline, so nothing but the picture is
 * written. */
#include "plot.h"

#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "tool.h"

static const struct { const char *ending, *terminal; } formats[] = {
    { ".svg", "svg size 900,600 background 'white'" },
    { ".png", "pngcairo size 900,600" },
};

static const char *terminal_of(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (n > 4 && !strcmp(path + n - 4, formats[i].ending))
            return formats[i].terminal;
    die("%s: a plot is .svg or .png", path);
}

void plot_check(const char *path)
{
    terminal_of(path);
    if (system("command -v gnuplot >/dev/null 2>&1") != 0)
        die("%s: gnuplot is not installed; --csv and --json need nothing", path);
}

static FILE *text_open(char **text, size_t *size)
{
    FILE *file = open_memstream(text, size);
    if (!file)
        die("out of memory");
    return file;
}

void plot_begin(struct plot *plot, const char *path, const char *x_label, const char *y_label)
{
    *plot = (struct plot){ .path = path, .x_label = x_label, .y_label = y_label };
    plot->titles_file = text_open(&plot->titles, &plot->titles_size);
    plot->data_file = text_open(&plot->data, &plot->data_size);
}

/* A gnuplot string in single quotes, in which nothing but the quote itself, written twice, is
 * special. */
static void quote(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', file);
        fputc((unsigned char)*text < 0x20 ? '?' : *text, file);
    }
    fputc('\'', file);
}

void plot_line(struct plot *plot, const char *title)
{
    if (plot->n_lines++)
        fputs("e\n", plot->data_file);
    fputs(plot->n_lines > 1 ? ", '-' with linespoints title " : "'-' with linespoints title ",
          plot->titles_file);
    quote(plot->titles_file, title);
}

void plot_point(struct plot *plot, double x, double y)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    fprintf(plot->data_file, "%s %s\n", format_double(a, x), format_double(b, y));
}

void plot_end(struct plot *plot)
{
    if (fclose(plot->titles_file) != 0 || fclose(plot->data_file) != 0)
        die("out of memory");
    FILE *gnuplot = popen("gnuplot >/dev/null 2>&1", "w");
    if (!gnuplot)
        die("%s: gnuplot could not be started", plot->path);
    fprintf(gnuplot, "set terminal %s noenhanced\nset output ", terminal_of(plot->path));
    quote(gnuplot, plot->path);
    fprintf(gnuplot, "\nset xlabel '%s'\nset ylabel '%s'\nset key above\nset grid\n"
            "plot %s\n%se\n", plot->x_label, plot->y_label, plot->titles, plot->data);
    if (pclose(gnuplot) != 0)
        die("%s: gnuplot could not draw it", plot->path);
    free(plot->titles);
    free(plot->data);
}
