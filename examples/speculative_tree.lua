-- Speculative decoding with a tree of drafts (SpecInfer, Medusa, EAGLE): the queries are up to
-- 60 drafted tokens, the last ones of the sequence; each sees the context, its ancestors in
-- the tree and itself.
--   ancestors  i64 [B, Sq]  bit n: drafted token n is seen
--
-- build/release/facc run examples/speculative_tree.lua --random 1,8,2,48,512,64 \
--     --tensor ancestors=build/inputs/speculative_tree/ancestors.npy --stats
local facc = require "facc"
local ancestors = facc.tensor("ancestors", "i64", { "B", "q" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local node = kv - (facc.len.kv(b) - facc.len.q(b))
    return node < 0 or ancestors[b][q] >> node & 1 == 1
  end,
}
