#include "runtime/cli/svg.h"

static void put_escaped(FILE *f, const char *s)
{
    for (; *s; s++)
        if (*s == '&')
            fputs("&amp;", f);
        else if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else
            fputc((unsigned char)*s < 32 ? ' ' : *s, f);
}

void svg_text(FILE *f, double x, double y, int size, const char *colour,
              const char *more, const char *s)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" fill=\"%s\"%s>", x,
            y, size, colour, more);
    put_escaped(f, s);
    fputs("</text>\n", f);
}
