-- A bias of its own for every score: pair bias (AlphaFold's Evoformer and Pairformer, triangle
-- attention), or any additive attn_mask of PyTorch. From Python any strides will do: stride 0
-- for a bias that all sequences share, say.
--   bias  f32 [B, H, Sq, Skv]
--
-- build/release/facc run examples/dense_bias.lua --random 1,8,2,512,512,64 \
--     --tensor bias=build/inputs/dense_bias/bias.npy --stats
local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "B", "H", "q", "kv" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + bias[b][h][q][kv] end,
}
