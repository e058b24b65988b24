-- Forgetting Transformer (FoX, Lin et al. 2025): each token has a forget gate; a score falls by
-- the logarithms of the gates between key and query, a difference of two running sums.
--   sums  f32 [B, H, Skv]  running sum of log(gate)
--
-- build/release/facc run examples/forgetting.lua --random 1,8,2,512,512,64 \
--     --tensor sums=build/inputs/forgetting/sums.npy --stats
local facc = require "facc"
local sums = facc.tensor("sums", "f32", { "B", "H", "kv" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + (sums[b][h][q] - sums[b][h][kv]) end,
  mask_mod = facc.mods.causal,
}
