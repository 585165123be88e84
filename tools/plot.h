/* Lines drawn by gnuplot as SVG or PNG. */
#ifndef PLOT_H
#define PLOT_H

#include <stddef.h>
#include <stdio.h>

struct plot {
    const char *path;
    const char *x_label, *y_label;
    /* What goes to gnuplot, gathered first because its `plot` command names every line before the
     * data of the first. */
    char *titles, *data;
    FILE *titles_file, *data_file; /* open_memstream() */
    size_t titles_size, data_size;
    size_t n_lines;
};

/* Ends the program if `path` ends in neither .svg nor .png, or gnuplot is not there. */
void plot_check(const char *path);
void plot_begin(struct plot *plot, const char *path, const char *x_label, const char *y_label);
void plot_line(struct plot *plot, const char *title);
void plot_point(struct plot *plot, double x, double y);
void plot_end(struct plot *plot);

#endif
