/* What all pictures in SVG write. */
#ifndef FACC_CLI_SVG_H
#define FACC_CLI_SVG_H

#include <stdio.h>

/* A picture on white, in pixels. */
void svg_begin(FILE *f, int width, int height);
/* Closes it and the file; EXIT_OK or EXIT_FAILED. */
int svg_end(FILE *f, const char *path);
/* A line of text from (x, y) on; more: further attributes, " name=value". */
void svg_text(FILE *f, double x, double y, int size, const char *colour,
              const char *more, const char *s);

#endif
