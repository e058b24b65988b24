-- A map of blocks that count, of each head its own: Video Sparse Attention (VSA, Zhang et al.
-- 2025), MoBA, SeerAttention. The map is data; as in VSA blocks may be padded at their ends.
--   map    bool [B, H, blocks, blocks]
--   sizes  i32 [blocks]  tokens of each block of keys, the rest is padding
--
-- build/release/facc run examples/block_sparse.lua --random 1,8,2,512,512,64 \
--     --tensor map=build/inputs/block_sparse/map.npy \
--     --tensor sizes=build/inputs/block_sparse/sizes.npy --stats
local facc = require "facc"
local size = 64
local map = facc.tensor("map", "bool", { "B", "H", "any", "any" })
local sizes = facc.tensor("sizes", "i32", { "any" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return map[b][h][q // size][kv // size] and kv % size < sizes[kv // size]
  end,
}
