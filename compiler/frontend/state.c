/* The Lua state of one load: our allocator, memory and instruction limits,
 * chunks, errors, and the only lua_pcall. In: text and limits; out: a state
 * for trace.c (and the tests' concrete.c), or a filled diag. */
#include "compiler/frontend/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/frontend/rewrite.h"

enum {
    DEFAULT_MEMORY_MIB = 64,
    DEFAULT_PATHS = 4096,
    DEFAULT_COMPARISONS = 512,
    HOOK_EVERY = 997 /* VM instructions; a prime, to meet all of a loop */
};
static const long long default_instructions = 200000000;

/* --- instructions ------------------------------------------------- */

void l_charge(lua_State *L, long long work)
{
    struct trace *t = trace_of(L);
    t->instructions += work;
    if (t->instructions >= t->max_instructions)
        l_fail(L,
               "the script runs for more than %lld VM instructions: does a "
               "loop never end?",
               t->max_instructions);
}

/* What nothing else counts (strings compared by <, next over holes) ends, too.
 * So late that no other work meets it. */
static void l_check_time(lua_State *L)
{
    enum { MAX_SECONDS = 20 };
    struct trace *t = trace_of(L);
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    if (!t->start)
        t->start = now.tv_sec + 1;
    if (now.tv_sec >= t->start + MAX_SECONDS)
        l_fail(L,
               "the script runs for more than %d seconds: does a loop never "
               "end?",
               MAX_SECONDS);
}

/* Values behind `...` in the running function: copied by one instruction. */
static int count_varargs(lua_State *L, lua_Debug *ar)
{
    int known = 0;
    int step = 1 << 20;
    lua_getinfo(L, "u", ar);
    if (!ar->isvararg)
        return 0;
    for (; step; step /= 2)
        if (lua_getlocal(L, ar, -(known + step))) {
            lua_pop(L, 1);
            known += step;
        }
    return known;
}

static void hook_instructions(lua_State *L, lua_Debug *ar)
{
    enum { FEW = 256, LOOP = 8 }; /* a loop that copies them is that long */
    int varargs = count_varargs(L, ar);
    long long copied = varargs > FEW ? (long long)varargs : 0;
    l_charge(L, HOOK_EVERY + copied * (HOOK_EVERY / LOOP));
    l_check_time(L);
}

/* --- memory ------------------------------------------------------- */

static int frame_line(lua_State *L);

/* Lua tries again after collecting garbage, and asks for a little while it
 * unwinds the stack: then no frame is left, and the line before stays. */
static void note_memory_line(struct trace *t)
{
    int line = t->L ? frame_line(t->L) : 0;
    t->over_memory = true;
    if (line || (t->L && !t->over_line))
        t->over_line = line ? line : state_line(t->L);
}

/* Making memory is work, wherever Lua does it. Nothing can fail here; the next
 * VM instruction does. */
static void count_memory(struct trace *t, size_t bytes)
{
    enum { EACH = 8, PER_BYTES = 16 };
    t->instructions += EACH + (long long)(bytes / PER_BYTES);
    if (t->L && t->instructions >= t->max_instructions)
        lua_sethook(t->L, hook_instructions, LUA_MASKCOUNT, 1);
}

long long state_memory(lua_State *L)
{
    return (long long)trace_of(L)->lua_bytes;
}

static void *allocate(void *user, void *ptr, size_t old_size, size_t new_size)
{
    struct trace *t = user;
    if (!ptr)
        old_size = 0; /* Lua passes a type here */
    if (!ptr && !new_size)
        return NULL;
    if (new_size > old_size &&
        t->lua_bytes + (new_size - old_size) > t->lua_limit) {
        note_memory_line(t);
        return NULL;
    }
    if (new_size > old_size)
        count_memory(t, new_size - old_size);
    void *p = t->alloc.fn(t->alloc.user, ptr, old_size, new_size);
    if (!p && new_size) {
        if (new_size > old_size)
            return NULL;
        p = ptr; /* Lua takes it that shrinking succeeds */
    }
    t->lua_bytes = t->lua_bytes - old_size + new_size;
    return p;
}

/* --- errors ------------------------------------------------------- */

static bool is_user_frame(const struct trace *t, const lua_Debug *ar)
{
    return ar->currentline > 0 && strcmp(ar->source, t->chunk) == 0;
}

enum { MAX_LEVELS = 256 }; /* looked at: finding level n takes n steps */

/* 0: none is near. */
static int frame_line(lua_State *L)
{
    struct trace *t = trace_of(L);
    lua_Debug ar;
    if (t->compiling)
        return t->compiling;
    for (int level = 0; level < MAX_LEVELS && lua_getstack(L, level, &ar);
         level++) {
        lua_getinfo(L, "Sl", &ar);
        if (is_user_frame(t, &ar))
            return ar.currentline;
    }
    return 0;
}

int state_line(lua_State *L)
{
    struct trace *t = trace_of(L);
    int line = frame_line(L);
    if (line)
        return line;
    for (const struct exploration *s = t->scope; s; s = s->up)
        if (s->line)
            return s->line;
    return t->attention_line;
}

void l_fail_at(lua_State *L, int line, const char *fmt, ...)
{
    struct trace *t = trace_of(L);
    va_list ap;
    va_start(ap, fmt);
    diag_setv(t->diag, DIAG_SCRIPT, t->stage, t->name, line, fmt, ap);
    va_end(ap);
    l_fail_recorded(L);
}

void l_fail_recorded(lua_State *L)
{
    struct trace *t = trace_of(L);
    if (!diag_failed(t->diag))
        diag_nomem(t->diag, t->stage);
    lua_pushnil(L);
    lua_error(L);
    __builtin_unreachable();
}

void *l_alloc(lua_State *L, size_t size)
{
    void *p = arena_alloc(trace_of(L)->graph->arena, size);
    if (!p)
        l_fail_recorded(L);
    return p;
}

struct trace *l_enter(lua_State *L)
{
    enum { CALL = 32 }; /* instructions */
    struct trace *t = trace_of(L);
    l_charge(L, CALL + lua_gettop(L));
    if (t->pending_line) {
        int line = t->pending_line;
        t->pending_line = 0;
        l_fail_at(L, line,
                  "a plain Lua table is indexed with a traced value; use "
                  "facc.tensor for data, or facc.lookup(list, i)");
    }
    t->graph->line = (uint32_t)state_line(L);
    /* what declarations and expressions take is not in Lua's memory */
    const size_t most = (size_t)512 << 20;
    if (arena_used(t->graph->arena) > most)
        l_fail(L, "the script needs more than %zu MiB of memory", most >> 20);
    return t;
}

/* Text being composed without Lua's memory. */
struct text {
    char *at;
    size_t left;
};

static void text_addv(struct text *x, const char *fmt, va_list ap)
{
    int n = vsnprintf(x->at, x->left, fmt, ap);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used >= x->left)
        used = x->left ? x->left - 1 : 0;
    x->at += used;
    x->left -= used;
}

static void text_add(struct text *x, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void text_add(struct text *x, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_addv(x, fmt, ap);
    va_end(ap);
}

/* Is the frame the mod itself, which C has called? */
static bool is_mod_frame(const struct trace *t, const lua_Debug *ar)
{
    const struct exploration *s = t->scope;
    while (s && s->up)
        s = s->up;
    int line = is_user_frame(t, ar) ? ar->linedefined : 0;
    return t->mod && s && s->line == line;
}

/* Own text instead of luaL_traceback: it needs no memory and does not change
 * with Lua's patch release. */
static void add_traceback(lua_State *L, struct text *x)
{
    enum { MOST = 12 };
    struct trace *t = trace_of(L);
    lua_Debug ar;
    int shown = 0;
    for (int level = 0;
         shown < MOST && level < MAX_LEVELS && lua_getstack(L, level, &ar);
         level++) {
        lua_getinfo(L, "Sln", &ar);
        if (ar.currentline <= 0 || strcmp(ar.source, STANDARD_CHUNK) == 0)
            continue;
        text_add(x, "%s\n\t%s:%d: in ", shown++ ? "" : "\nstack traceback:",
                 ar.source + (*ar.source == '@' || *ar.source == '='),
                 ar.currentline);
        if (strcmp(ar.what, "main") == 0)
            text_add(x, "main chunk");
        else if (*ar.namewhat && strcmp(ar.namewhat, "metamethod") != 0)
            text_add(x, "function '%s'", ar.name);
        else if (is_mod_frame(t, &ar))
            text_add(x, "%s", t->mod);
        else
            text_add(x, "function <line %d>", ar.linedefined);
    }
}

/* Is the running function a helper: called by another one of the file? */
static bool is_nested(lua_State *L)
{
    struct trace *t = trace_of(L);
    lua_Debug ar;
    int frames = 0;
    for (int level = 0;
         frames < 2 && level < MAX_LEVELS && lua_getstack(L, level, &ar);
         level++) {
        lua_getinfo(L, "Sl", &ar);
        frames += is_user_frame(t, &ar);
    }
    return frames > 1;
}

/* With one function running, the line says all that a traceback would. */
void l_fail(lua_State *L, const char *fmt, ...)
{
    struct trace *t = trace_of(L);
    char buffer[sizeof t->diag->message];
    struct text x = {buffer, sizeof buffer};
    va_list ap;
    va_start(ap, fmt);
    text_addv(&x, fmt, ap);
    va_end(ap);
    if (is_nested(L))
        add_traceback(L, &x);
    l_fail_at(L, state_line(L), "%s", buffer);
}

/* Where Lua's own message says that it happened: "short_src:line: ". */
static const char *strip_position(lua_State *L, const char *message,
                                  lua_Debug *frame)
{
    for (int level = 1; level < MAX_LEVELS && lua_getstack(L, level, frame);
         level++) {
        char prefix[LUA_IDSIZE + 16];
        lua_getinfo(L, "Sl", frame);
        if (frame->currentline <= 0)
            continue;
        int n = snprintf(prefix, sizeof prefix, "%s:%d: ", frame->short_src,
                         frame->currentline);
        if (n > 0 && strncmp(message, prefix, (size_t)n) == 0)
            return message + n;
    }
    frame->currentline = 0;
    return message;
}

/* Lua's function was called by the one in its place (counted.c, value.c),
 * which has the name. The text after what is written. */
static const char *add_argument(lua_State *L, struct text *x, const char *text)
{
    lua_Debug ar;
    int argument;
    int n = 0;
    int got = sscanf(text, "bad argument #%d to '?'%n", &argument, &n);
    if (got != 1 || n == 0 || !lua_getstack(L, 2, &ar))
        return text;
    lua_getinfo(L, "n", &ar);
    if (!ar.name)
        return text;
    argument -= strcmp(ar.namewhat, "method") == 0; /* self is none */
    text_add(x, "bad argument #%d to '%s'", argument, ar.name);
    return text + n;
}

static const char chain_advice[] = "; a <= x <= b is written a <= x and x <= b";

/* More than Lua's own message says. */
static const char *advice_on(const char *text)
{
    static const struct {
        const char *start, *advice;
    } known[] = {
        {"attempt to compare boolean with number", chain_advice},
        {"attempt to compare number with boolean", chain_advice},
        {"attempt to compare boolean with " TRACED_NAME, chain_advice},
        {"attempt to compare " TRACED_NAME " with boolean", chain_advice},
        {"attempt to perform bitwise operation on a boolean",
         "; booleans take \"and\", \"or\" and \"not\""},
        {"attempt to perform arithmetic on a boolean",
         "; x and 1 or 0 makes a number of it"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strncmp(text, known[k].start, strlen(known[k].start)) == 0)
            return known[k].advice;
    const char *standard = &STANDARD_CHUNK[1]; /* without the @ */
    if (strncmp(text, standard, strlen(standard)) == 0 &&
        strstr(text, "attempt to compare two nil values"))
        return " (a mod is given as it is: mask_mod = facc.mods.causal)";
    bool bound =
        strncmp(text, "bad 'for' ", 10) == 0 &&
        (strstr(text, "got " TRACED_NAME) || strstr(text, "got " TENSOR_NAME));
    return bound ? "; use facc.sum(n, f) with a constant n, and a comparison "
                   "inside of f"
                 : "";
}

/* Turns Lua's error into the diag; runs where the error happened. */
static int l_message(lua_State *L)
{
    struct trace *t = trace_of(L);
    if (diag_failed(t->diag))
        return 1;
    char buffer[sizeof t->diag->message];
    struct text x = {buffer, sizeof buffer};
    int line = state_line(L);
    buffer[0] = '\0';
    if (lua_type(L, 1) == LUA_TSTRING) {
        lua_Debug frame;
        const char *whole = lua_tostring(L, 1);
        const char *text = strip_position(L, whole, &frame);
        if (frame.currentline > 0 && is_user_frame(t, &frame))
            line = frame.currentline;
        else if (frame.currentline > 0)
            text = whole; /* inside the standard mods: keep the place */
        text = add_argument(L, &x, text);
        text_add(&x, "%s%s", text, advice_on(text));
    } else if (lua_isinteger(L, 1)) { /* in place of its text: no memory */
        text_add(&x, "%lld", (long long)lua_tointeger(L, 1));
    } else if (lua_type(L, 1) == LUA_TNUMBER) {
        text_add(&x, "%.14g", (double)lua_tonumber(L, 1));
    } else {
        text_add(&x, "the error object is %s", value_kind_name(L, 1));
    }
    add_traceback(L, &x);
    diag_set(t->diag, DIAG_SCRIPT, t->stage, t->name, line, "%s", buffer);
    return 1;
}

bool state_call(struct trace *t, lua_CFunction f, void *argument)
{
    lua_State *L = t->L;
    lua_settop(L, 0);
    lua_pushcfunction(L, l_message);
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, argument);
    int status = lua_pcall(L, 1, 0, 1);
    if (status == LUA_OK)
        return true;
    if (status == LUA_ERRMEM && !t->over_memory)
        return diag_nomem(t->diag, t->stage);
    if (status == LUA_ERRMEM)
        return diag_set(t->diag, DIAG_SCRIPT, t->stage, t->name, t->over_line,
                        "the script needs more than %zu MiB of memory",
                        t->lua_limit >> 20);
    return diag_set(t->diag, DIAG_SCRIPT, t->stage, t->name, 0,
                    "the stack overflowed while an error was handled");
}

/* --- chunks ------------------------------------------------------- */

/* Lua's syntax error, "short_src:line: text", into the diag. */
/* What habits of other languages need. */
static const char *syntax_hint(const char *message)
{
    static const struct {
        const char *end, *hint;
    } known[] = {{"']' expected near ','",
                  "; a tensor takes several indices as t[i][j] or t(i, j)"},
                 {"near '!'", "; Lua has ~= for != and not for !"},
                 {"symbol near '&'", "; Lua has \"and\" for &&"},
                 {"symbol near '|'", "; Lua has \"or\" for ||"},
                 {"syntax error near '+'", "; Lua has x = x + 1 for x += 1"},
                 {"symbol near 'return'", "; an expression has no \"return\""},
                 {"near '?'", "; Lua has \"c and x or y\" for c ? x : y"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const size_t n = strlen(message), m = strlen(known[k].end);
        if (n >= m && strcmp(message + n - m, known[k].end) == 0)
            return known[k].hint;
    }
    return "";
}

static _Noreturn void l_syntax_error(lua_State *L, const char *chunk)
{
    struct trace *t = trace_of(L);
    const char *message = lua_tostring(L, -1);
    bool user = strcmp(chunk, t->chunk) == 0;
    int line = state_line(L);
    if (!message)
        l_fail_recorded(L);
    for (const char *p = strchr(message, ':'); user && p;
         p = strchr(p + 1, ':')) {
        char *end;
        long n = strtol(p + 1, &end, 10);
        if (end > p + 1 && end[0] == ':' && end[1] == ' ') {
            line = (int)n;
            message = end + 2;
            break;
        }
    }
    l_fail_at(L, line, "%s%s", message, syntax_hint(message));
}

/* A first line that starts with '#' is for the shell; a byte order mark is
 * for nobody. Lines keep their numbers. */
static void skip_preamble(const char **text, size_t *size)
{
    size_t i = 0;
    if (*size >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0)
        i = 3;
    if (i < *size && (*text)[i] == '#')
        while (i < *size && (*text)[i] != '\n')
            i++;
    *text += i;
    *size -= i;
}

/* Text on its way to Lua's compiler. */
struct source {
    const char *at;
    size_t left;
    bool user; /* the user's file: its lines are counted */
};

/* Gives the text in pieces, none longer than a line: so errors that Lua tells
 * no line of (memory, nesting) get theirs, and time is looked at (some of the
 * compiler's is quadratic). */
static const char *l_read(lua_State *L, void *user, size_t *size)
{
    enum { PIECE = 512 };
    struct source *s = user;
    struct trace *t = trace_of(L);
    const char *piece = s->at;
    size_t n = s->left < PIECE ? s->left : PIECE;
    const char *end = n ? memchr(piece, '\n', n) : NULL;
    if (end)
        n = (size_t)(end - piece) + 1;
    t->compiling += s->user && t->line_ends;
    t->line_ends = end != NULL;
    l_check_time(L);
    s->at += n;
    s->left -= n;
    *size = n;
    return n ? piece : NULL;
}

static int l_load(lua_State *L, const char *text, size_t size,
                  const char *chunk)
{
    struct trace *t = trace_of(L);
    struct source s = {text, size, strcmp(chunk, t->chunk) == 0};
    t->compiling = s.user;
    t->line_ends = false;
    return lua_load(L, l_read, &s, chunk, "t");
}

static void l_compile(lua_State *L, const char *text, size_t size,
                      const char *chunk)
{
    int status = l_load(L, text, size, chunk);
    if (status == LUA_ERRSYNTAX)
        l_syntax_error(L, chunk);
    if (status != LUA_OK) /* memory, nesting: on, to state_call */
        lua_error(L);
    trace_of(L)->compiling = 0;
}

void l_load_chunk(lua_State *L, const char *text, size_t size,
                  const char *chunk)
{
    enum { MOST = 8 << 20 };
    struct trace *t = trace_of(L);
    skip_preamble(&text, &size);
    t->compiling = strcmp(chunk, t->chunk) == 0;
    if (size > MOST)
        l_fail(L, "a text of %zu bytes: at most %d are taken", size, MOST);
    l_charge(L, 1000 + 16 * (long long)size);
    l_compile(L, text, size, chunk);
    lua_pop(L, 1);
    struct rewritten r = rewrite_source(t->graph->arena, text, size);
    if (!r.text)
        l_fail_recorded(L);
    if (r.reserved_line)
        l_fail_at(L, r.reserved_line,
                  "the names __eq, __ne, __k and __c are reserved");
    l_compile(L, r.text, r.size, chunk);
}

bool l_is_chunk(lua_State *L, const char *text, size_t size, const char *chunk)
{
    int status = l_load(L, text, size, chunk);
    if (status != LUA_OK && status != LUA_ERRSYNTAX)
        lua_error(L);
    lua_pop(L, 1);
    return status == LUA_OK;
}

void l_run_chunk(lua_State *L)
{
    lua_call(L, l_push_sentinels(L), 1);
}

struct attention *l_run_file(lua_State *L, const char *text, size_t size)
{
    struct trace *t = trace_of(L);
    l_load_chunk(L, text, size, t->chunk);
    l_run_chunk(L);
    l_enter(L);
    struct attention *a = value_object(L, -1, OBJECT_ATTENTION);
    if (!a)
        l_fail_at(L, t->n_lines - 1,
                  "the file must return facc.attention{...}, but it returns %s",
                  lua_isnil(L, -1) ? "nothing" : value_kind_name(L, -1));
    return a;
}

/* --- open and close ----------------------------------------------- */

static int l_open(lua_State *L)
{
    l_open_sandbox(L);
    return 0;
}

static bool fill(struct trace *t, const struct alloc *a, const char *name,
                 const char *text, size_t size,
                 const struct compile_limits *limits)
{
    struct compile_limits none = {0};
    const struct compile_limits *l = limits ? limits : &none;
    struct arena *arena = t->graph->arena;
    t->alloc = *a;
    t->name = arena_strdup(arena, name);
    t->chunk = arena_printf(arena, "@%s", name);
    t->stage = "load";
    t->lua_limit =
        l->lua_memory ? l->lua_memory : (size_t)DEFAULT_MEMORY_MIB << 20;
    t->max_instructions =
        l->instructions ? l->instructions : default_instructions;
    t->max_paths = l->max_paths ? l->max_paths : DEFAULT_PATHS;
    t->max_comparisons =
        l->max_comparisons ? l->max_comparisons : DEFAULT_COMPARISONS;
    t->n_lines = 2; /* from line 0 on */
    for (size_t i = 0; i < size; i++)
        t->n_lines += text[i] == '\n' && i + 1 < size;
    t->forks = arena_alloc(arena, sizeof *t->forks * (size_t)t->n_lines);
    t->seen = arena_alloc(arena, sizeof *t->seen * SEEN_CAPACITY);
    t->seen_cap = SEEN_CAPACITY;
    return t->name && t->chunk && t->forks && t->seen;
}

bool state_open(struct trace *t, const struct alloc *a, const char *name,
                const char *text, size_t size,
                const struct compile_limits *limits)
{
    if (!fill(t, a, name, text, size, limits))
        return diag_nomem(t->diag, "load");
    t->L = lua_newstate(allocate, t);
    if (!t->L)
        return diag_nomem(t->diag, "load");
    memcpy(lua_getextraspace(t->L), &t, sizeof(struct trace *));
    lua_sethook(t->L, hook_instructions, LUA_MASKCOUNT, HOOK_EVERY);
    return state_call(t, l_open, NULL);
}

void state_close(struct trace *t)
{
    if (t->L)
        lua_close(t->L);
    t->L = NULL;
}
