/* Hashes of words, and 128-bit content hashes (xxHash XXH3) of length-prefixed
 * fields, so that ("ab","c") and ("a","bc") differ. */
#ifndef FACC_HASH_H
#define FACC_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash128 {
    uint64_t lo, hi;
};

/* Order-dependent mixing of one more word into a hash. */
uint64_t hash_mix(uint64_t h, uint64_t word);

struct hash_stream; /* opaque; NULL from new when memory is out */
struct hash_stream *hash_stream_new(void);
void hash_stream_field(struct hash_stream *s, const void *data, size_t size);
/* Ends and frees the stream. */
struct hash128 hash_stream_end(struct hash_stream *s);

/* 32 lower-case hex digits and NUL. */
void hash128_hex(struct hash128 h, char out[33]);

#endif
