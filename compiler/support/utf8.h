/* UTF-8 in text that others wrote: names of files may hold any bytes, JSON
 * and NVRTC take valid sequences only. */
#ifndef FACC_UTF8_H
#define FACC_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the sequence that s, which ends in NUL, begins with; 0 if it is
 * none (cut off, overlong, a surrogate, beyond U+10FFFF). */
static inline size_t utf8_length(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0x80   ? 1
               : u[0] < 0xc2 ? 0
               : u[0] < 0xe0 ? 2
               : u[0] < 0xf0 ? 3
               : u[0] < 0xf5 ? 4
                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
        (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return n;
}

static inline bool utf8_is_valid(const char *s)
{
    for (size_t n; *s; s += n)
        if ((n = utf8_length(s)) == 0)
            return false;
    return true;
}

/* Every byte that belongs to no valid sequence becomes '?'. */
static inline void utf8_repair(char *s)
{
    for (size_t n; *s; s += n)
        if ((n = utf8_length(s)) == 0) {
            *s = '?';
            n = 1;
        }
}

#endif
