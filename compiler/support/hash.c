/* Word mixing for the hashes of nodes, and XXH3 as a 128-bit stream of
 * length-prefixed fields for cache keys. Called by compiler/ir and the
 * runtime's cache. */
#include "compiler/support/hash.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_mix(uint64_t h, uint64_t word)
{
    h = (h ^ (word * UINT64_C(0x9e3779b97f4a7c15))) +
        UINT64_C(0x632be59bd9b4e019);
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

struct hash_stream {
    XXH3_state_t *state;
};

struct hash_stream *hash_stream_new(void)
{
    struct hash_stream *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    s->state = XXH3_createState();
    if (!s->state) {
        free(s);
        return NULL;
    }
    XXH3_128bits_reset(s->state);
    return s;
}

void hash_stream_field(struct hash_stream *s, const void *data, size_t size)
{
    unsigned char prefix[8];
    for (int k = 0; k < 8; k++)
        prefix[k] = (unsigned char)((uint64_t)size >> (8 * k));
    XXH3_128bits_update(s->state, prefix, sizeof prefix);
    if (size)
        XXH3_128bits_update(s->state, data, size);
}

struct hash128 hash_stream_end(struct hash_stream *s)
{
    XXH128_hash_t h = XXH3_128bits_digest(s->state);
    XXH3_freeState(s->state);
    free(s);
    return (struct hash128){.lo = h.low64, .hi = h.high64};
}

void hash128_hex(struct hash128 h, char out[33])
{
    static const char digits[] = "0123456789abcdef";
    for (int k = 0; k < 16; k++) {
        out[k] = digits[(h.hi >> (60 - 4 * k)) & 15];
        out[16 + k] = digits[(h.lo >> (60 - 4 * k)) & 15];
    }
    out[32] = '\0';
}
