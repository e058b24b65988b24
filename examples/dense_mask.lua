-- A mask that somebody made as a tensor (PyTorch's attn_mask, true: counts), one for all heads.
-- It is read once before the kernel runs, two bits a tile, so its empty tiles are skipped too.
--   keep  bool [B, 1, Sq, Skv]
--
-- build/release/facc run examples/dense_mask.lua --random 1,8,2,512,512,64 \
--     --tensor keep=build/inputs/dense_mask/keep.npy --stats
local facc = require "facc"
local keep = facc.tensor("keep", "bool", { "B", 1, "q", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv) return keep[b][0][q][kv] end,
}
