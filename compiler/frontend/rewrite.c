/* In: the text of a Lua chunk. Out: the same chunk with == ~=, index keys and
 * conditions rewritten (rewrite.h says why and how). Called by state.c for
 * every chunk. A lexer that skips comments and strings is enough: the operands
 * are found by Lua's own parser, not here. */
#include "compiler/frontend/rewrite.h"

#include <string.h>

#include "compiler/support/strbuf.h"

/* What stands before a primary expression (a name or parentheses, with all
 * that is indexed and called after it), and so when it is a condition. */
enum before {
    BEFORE_OTHER,    /* if "and", "or" or "then" follows */
    BEFORE_OPERATOR, /* never: it is an operand */
    BEFORE_NOT,      /* always */
    BEFORE_WHILE,    /* if "do" follows, too */
    BEFORE_UNTIL     /* unless an operator follows */
};

struct primary {
    bool open;         /* being read */
    size_t start, end; /* in the output */
    enum before before;
};

enum token {
    TOKEN_NAME,
    TOKEN_KEYWORD,
    TOKEN_STRING,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_FIELD,     /* . or : before a name */
    TOKEN_SEPARATOR, /* , ; = and what cannot follow an operand */
    TOKEN_OPERATOR,
    TOKEN_END
};

enum { MAX_NESTING = 256 }; /* Lua allows 200 */

/* What goes on when a bracket closes. */
struct around {
    struct primary primary;
    enum before clause;
};

struct lexer {
    const char *s;
    size_t n, i; /* text, next character */
    int line;
    int reserved_line;
    struct strbuf out;
    struct primary primary;            /* the last one */
    struct around around[MAX_NESTING]; /* where a bracket opened */
    int depth;
    enum before clause; /* inside of while or until, else BEFORE_OTHER */
    enum before before; /* what the last token would be */
    bool field;         /* the last token was . or : */
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The character k places on, 0 at the end. */
static char peek(const struct lexer *x, size_t k)
{
    if (x->i + k >= x->n)
        return '\0';
    return x->s[x->i + k];
}

/* End of the long bracket that opens at i ("[[", "[==["), or 0: none. */
static size_t long_bracket_end(const struct lexer *x, size_t i)
{
    size_t j = i + 1;
    while (j < x->n && x->s[j] == '=')
        j++;
    if (j >= x->n || x->s[j] != '[')
        return 0;
    size_t level = j - i - 1;
    for (j++; j < x->n; j++) {
        if (x->s[j] != ']')
            continue;
        size_t k = j + 1;
        while (k < x->n && x->s[k] == '=')
            k++;
        if (k - j - 1 == level && k < x->n && x->s[k] == ']')
            return k + 1;
        j = k - 1;
    }
    return x->n;
}

/* End of the comment at i, or i when there is none. */
static size_t comment_end(const struct lexer *x, size_t i)
{
    if (i + 1 >= x->n || x->s[i] != '-' || x->s[i + 1] != '-')
        return i;
    if (i + 2 < x->n && x->s[i + 2] == '[') {
        size_t e = long_bracket_end(x, i + 2);
        if (e)
            return e;
    }
    while (i < x->n && x->s[i] != '\n' && x->s[i] != '\r')
        i++;
    return i;
}

/* End of the quoted string that starts at i. */
static size_t string_end(const struct lexer *x, size_t i)
{
    char quote = x->s[i++];
    while (i < x->n && x->s[i] != quote && x->s[i] != '\n') {
        if (x->s[i] == '\\' && i + 1 < x->n) {
            i++;
            if (x->s[i] == 'z') /* skips white space, newlines included */
                while (i + 1 < x->n && is_space(x->s[i + 1]))
                    i++;
            else if (i + 1 < x->n && x->s[i] == '\r' && x->s[i + 1] == '\n')
                i++;
        }
        i++;
    }
    return i < x->n ? i + 1 : i;
}

static size_t blank_end(const struct lexer *x, size_t i)
{
    for (;;) {
        size_t e = comment_end(x, i);
        if (e == i && i < x->n && is_space(x->s[i]))
            e = i + 1;
        if (e == i)
            return i;
        i = e;
    }
}

/* A key that is one literal ("[1]", "['a']") stays as it is, so that Lua's
 * messages keep the field's name. The end of the bracket, or 0. */
static size_t literal_key_end(const struct lexer *x)
{
    size_t i = blank_end(x, x->i + 1);
    if (i >= x->n)
        return 0;
    char c = x->s[i];
    size_t e = 0;
    if (c == '"' || c == '\'')
        e = string_end(x, i);
    else if (c == '[')
        e = long_bracket_end(x, i);
    else if (c >= '0' && c <= '9')
        for (e = i; e < x->n && is_name_char(x->s[e]);)
            e++;
    if (!e)
        return 0;
    e = blank_end(x, e);
    return e < x->n && x->s[e] == ']' ? e + 1 : 0;
}

/* --- conditions --------------------------------------------------- */

static bool is_word(const struct lexer *x, const char *word)
{
    size_t n = strlen(word);
    return x->n - x->i >= n && memcmp(x->s + x->i, word, n) == 0 &&
           !(x->n - x->i > n && is_name_char(x->s[x->i + n]));
}

static bool is_one_of(const struct lexer *x, const char *const *words)
{
    for (; *words; words++)
        if (is_word(x, *words))
            return true;
    return false;
}

static enum token classify(const struct lexer *x)
{
    static const char *const keywords[] = {
        "and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
        "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
        "repeat",   "return", "then", "true", "until",  "while", NULL};
    char c = peek(x, 0);
    char d = peek(x, 1);
    if (c >= '0' && c <= '9')
        return TOKEN_SEPARATOR;
    if (is_name_char(c))
        return is_one_of(x, keywords) ? TOKEN_KEYWORD : TOKEN_NAME;
    if (c == '"' || c == '\'' || (c == '[' && long_bracket_end(x, x->i)))
        return TOKEN_STRING;
    if (c == '(' || c == '[' || c == '{')
        return TOKEN_OPEN;
    if (c == ')' || c == ']' || c == '}')
        return TOKEN_CLOSE;
    if ((c == '.' || c == ':') && d != c)
        return TOKEN_FIELD;
    bool separates = c == ',' || c == ';' || c == ':' || (c == '=' && d != c);
    return separates ? TOKEN_SEPARATOR : TOKEN_OPERATOR;
}

/* Is the primary before the token at the present place a condition? */
static bool is_condition(const struct lexer *x, enum token next)
{
    static const char *const logic[] = {"and", "or", "then", NULL};
    switch (x->primary.before) {
    case BEFORE_OTHER:
        return next == TOKEN_KEYWORD && is_one_of(x, logic);
    case BEFORE_WHILE:
        return next == TOKEN_KEYWORD &&
               (is_one_of(x, logic) || is_word(x, "do"));
    case BEFORE_UNTIL:
        return next != TOKEN_OPERATOR;
    case BEFORE_NOT:
        return true;
    case BEFORE_OPERATOR:
        break;
    }
    return false;
}

/* Puts __c( ) around the last primary, or __c( ,0) before an "or", unless it is
 * "not x or y"; apart from the word that "not(x)" and "if(x)then" begin with.
 */
static void wrap_primary(struct lexer *x)
{
    const struct primary *p = &x->primary;
    if (x->out.failed)
        return;
    const bool touches = is_name_char(x->out.text[p->start - 1]);
    const char *opening = touches ? " __c(" : "__c(";
    const bool is_value = p->before != BEFORE_NOT && is_word(x, "or");
    const char *closing = is_value ? ",0)" : ")";
    const size_t n_open = strlen(opening), n = strlen(closing);
    const size_t len = x->out.len;
    strbuf_add(&x->out, opening);
    strbuf_add(&x->out, closing);
    if (x->out.failed)
        return;
    char *text = x->out.text;
    memmove(text + p->end + n_open + n, text + p->end, len - p->end);
    memcpy(text + p->end + n_open, closing, n);
    memmove(text + p->start + n_open, text + p->start, p->end - p->start);
    memcpy(text + p->start, opening, n_open);
}

/* The clause after the token at the present place. Behind an "until" begins a
 * statement, which may be an assignment. */
static enum before clause_of(const struct lexer *x, enum token token)
{
    static const char *const within[] = {"and",  "or",    "not", "nil",
                                         "true", "false", NULL};
    if (token == TOKEN_KEYWORD && !is_one_of(x, within))
        return is_word(x, "while")   ? BEFORE_WHILE
               : is_word(x, "until") ? BEFORE_UNTIL
                                     : BEFORE_OTHER;
    const bool assigns = peek(x, 0) == ',' || peek(x, 0) == '=';
    return token == TOKEN_SEPARATOR && assigns ? BEFORE_OTHER : x->clause;
}

static enum before before_of(const struct lexer *x, enum token token)
{
    if (token == TOKEN_OPERATOR)
        return BEFORE_OPERATOR;
    if (token != TOKEN_KEYWORD)
        return BEFORE_OTHER;
    return is_word(x, "not") ? BEFORE_NOT : x->clause;
}

static void enter_bracket(struct lexer *x)
{
    if (x->depth < MAX_NESTING)
        x->around[x->depth] = (struct around){x->primary, x->clause};
    x->depth++;
    x->primary.open = false;
    x->clause = BEFORE_OTHER;
}

static void leave_bracket(struct lexer *x)
{
    x->depth--;
    if (x->depth >= 0 && x->depth < MAX_NESTING) {
        x->primary = x->around[x->depth].primary;
        x->clause = x->around[x->depth].clause;
    }
}

/* A token is about to be copied: ends the primary, goes on with it, or starts
 * one. */
static void before_token(struct lexer *x, enum token token)
{
    struct primary *p = &x->primary;
    bool suffix = token == TOKEN_FIELD || token == TOKEN_OPEN ||
                  token == TOKEN_STRING || (token == TOKEN_NAME && x->field);
    if (p->open && !suffix) {
        if (is_condition(x, token))
            wrap_primary(x);
        p->open = false;
    }
    bool starts = token == TOKEN_NAME || peek(x, 0) == '(';
    if (!p->open && starts)
        *p = (struct primary){true, x->out.len, 0, x->before};
    x->clause = clause_of(x, token);
    if (token == TOKEN_OPEN)
        enter_bracket(x);
    else if (token == TOKEN_CLOSE)
        leave_bracket(x);
    x->before = before_of(x, token);
    x->field = token == TOKEN_FIELD;
}

/* --- copying ------------------------------------------------------ */

static void copy_to(struct lexer *x, size_t end)
{
    for (size_t k = x->i; k < end; k++)
        x->line += x->s[k] == '\n';
    strbuf_addn(&x->out, x->s + x->i, end - x->i);
    x->i = end;
}

static void replace(struct lexer *x, size_t skip, const char *by)
{
    strbuf_add(&x->out, by);
    x->i += skip;
}

static void copy_name(struct lexer *x)
{
    size_t e = x->i;
    while (e < x->n && is_name_char(x->s[e]))
        e++;
    size_t len = e - x->i;
    const char *name = x->s + x->i;
    bool reserved =
        (len == 4 && (!memcmp(name, "__eq", 4) || !memcmp(name, "__ne", 4))) ||
        (len == 3 && (!memcmp(name, "__k", 3) || !memcmp(name, "__c", 3)));
    if (reserved && !x->reserved_line)
        x->reserved_line = x->line;
    copy_to(x, e);
}

static void copy_open_bracket(struct lexer *x)
{
    size_t e = literal_key_end(x);
    if (e) {
        copy_to(x, e);
        return;
    }
    replace(x, 1, "[__k(");
}

/* End of the comment or string at the present place, or 0. */
static size_t verbatim_end(const struct lexer *x)
{
    char c = peek(x, 0);
    size_t e = comment_end(x, x->i);
    if (e > x->i)
        return e;
    if (c == '"' || c == '\'')
        return string_end(x, x->i);
    return c == '[' ? long_bracket_end(x, x->i) : 0;
}

static void copy_token(struct lexer *x)
{
    char c = peek(x, 0);
    char d = peek(x, 1);
    size_t e = verbatim_end(x);
    if (e)
        copy_to(x, e);
    else if (c == '=' && d == '=')
        replace(x, 2, "> __eq |");
    else if (c == '~' && d == '=')
        replace(x, 2, "> __ne |");
    else if ((c == '<' || c == '>') && (d == '=' || d == c))
        copy_to(x, x->i + 2);
    else if ((c == ':' || c == '.') && d == c)
        copy_to(x, x->i + 2);
    else if (c == '[')
        copy_open_bracket(x);
    else if (c == ']')
        replace(x, 1, ")]");
    else if (is_name_char(c))
        copy_name(x);
    else
        copy_to(x, x->i + 1);
}

static void next_token(struct lexer *x)
{
    size_t blank = blank_end(x, x->i);
    if (blank > x->i) {
        copy_to(x, blank);
        return;
    }
    int depth = x->depth;
    before_token(x, classify(x));
    size_t from = x->i;
    copy_token(x);
    /* "[1]" is copied in one piece */
    if (x->depth > depth && x->i > from + 1 && x->s[x->i - 1] == ']')
        leave_bracket(x);
    x->primary.end = x->out.len;
}

struct rewritten rewrite_source(struct arena *a, const char *text, size_t size)
{
    struct lexer x = {.s = text, .n = size, .line = 1};
    strbuf_init(&x.out, a);
    strbuf_add(&x.out, REWRITE_HEAD);
    while (x.i < x.n)
        next_token(&x);
    before_token(&x, TOKEN_END);
    struct rewritten r = {NULL, x.out.len, x.reserved_line};
    if (!x.out.failed)
        r.text = x.out.text;
    return r;
}
