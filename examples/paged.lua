-- A paged KV cache (vLLM's PagedAttention) by a mod: kv is a place in the cache; the table
-- says where in the sequence its page lies. Causal on places in the sequence, the queries
-- being its last tokens. From Python all sequences may share one K and V, by stride 0.
--   page_of  i32 [B, pages]  place of each page of the cache in sequence b, -1: not of b
--   length   i32 [B]         tokens of each sequence
--
-- build/release/facc run examples/paged.lua --random 2,8,2,16,512,64 \
--     --tensor page_of=build/inputs/paged/page_of.npy \
--     --tensor length=build/inputs/paged/length.npy --stats
local facc = require "facc"
local size = 16
local page_of = facc.tensor("page_of", "i32", { "B", "any" })
local length = facc.tensor("length", "i32", { "B" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local page = page_of[b][kv // size]
    local at = page * size + kv % size
    return page >= 0 and at <= length[b] - facc.len.q(b) + q
  end,
}
