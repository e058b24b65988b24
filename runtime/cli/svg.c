#include "runtime/cli/svg.h"

#include <errno.h>
#include <string.h>

#include "runtime/cli/cli.h"

void svg_begin(FILE *f, int width, int height)
{
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"Inter, "
            "'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', "
            "sans-serif\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            width, height, width, height, width, height);
}

int svg_end(FILE *f, const char *path)
{
    fputs("</svg>\n", f);
    const bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return cli_fail("%s: %s", path, strerror(errno));
    return EXIT_OK;
}

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
