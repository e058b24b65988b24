/* Growable text. In: pieces of text; out: one NUL-terminated string in the
 * arena. Used by the printer and the emitter, which check `failed` once. */
#include "compiler/support/strbuf.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strbuf_init(struct strbuf *b, struct arena *a)
{
    *b = (struct strbuf){.arena = a};
}

/* Room for n more bytes and the NUL. */
static bool reserve(struct strbuf *b, size_t n)
{
    if (b->failed)
        return false;
    if (n < b->cap - b->len)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len <= n) {
        if (cap > SIZE_MAX / 2) {
            b->failed = true;
            return false;
        }
        cap *= 2;
    }
    char *p = arena_grow(b->arena, b->text, b->cap, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->text = p;
    b->cap = cap;
    return true;
}

void strbuf_addn(struct strbuf *b, const char *s, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n)
        memcpy(b->text + b->len, s, n);
    b->len += n;
    b->text[b->len] = '\0';
}

void strbuf_add(struct strbuf *b, const char *s)
{
    strbuf_addn(b, s, strlen(s));
}

void strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        b->failed = true;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->text + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

/* Writes printf's digits with '.' for whatever the locale's decimal point is
 * (it may be several bytes), and adds ".0" to a mantissa without a point. */
static void add_digits(struct strbuf *b, const char *s)
{
    bool point = false;
    for (; *s && *s != 'e'; s++) {
        if (isdigit((unsigned char)*s) || *s == '-') {
            strbuf_addn(b, s, 1);
        } else if (!point) {
            strbuf_add(b, ".");
            point = true;
        }
    }
    if (!point)
        strbuf_add(b, ".0");
    strbuf_add(b, s);
}

void strbuf_add_double(struct strbuf *b, double v)
{
    if (isnan(v)) {
        strbuf_add(b, "nan");
        return;
    }
    if (isinf(v)) {
        strbuf_add(b, v < 0 ? "-inf" : "inf");
        return;
    }
    char s[64];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v)
            break;
    }
    add_digits(b, s);
}

const char *strbuf_text(const struct strbuf *b)
{
    return b->text ? b->text : "";
}
