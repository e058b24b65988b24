/* Growable text with a sticky out-of-memory state: build, check once.
 * Numbers are printed without the C locale's help. */
#ifndef FACC_STRBUF_H
#define FACC_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/support/arena.h"

struct strbuf {
    struct arena *arena; /* owner of text */
    char *text;          /* NUL-terminated once anything was added */
    size_t len, cap;
    bool failed; /* memory ran out: text is incomplete */
};

void strbuf_init(struct strbuf *b, struct arena *a);
void strbuf_add(struct strbuf *b, const char *s);
void strbuf_addn(struct strbuf *b, const char *s, size_t n);
/* printf subset safe under any locale: do not pass %f/%e/%g here. */
void strbuf_addf(struct strbuf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A double as shortest decimal that reads back equal, '.' always. */
void strbuf_add_double(struct strbuf *b, double v);
/* The text, never NULL: "" when empty. */
const char *strbuf_text(const struct strbuf *b);

#endif
