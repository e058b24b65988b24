-- Learned relative position bias: one number for each head and distance, clipped at `reach` on
-- both sides.
--   bias  f32 [H, 257]
--
-- build/release/facc run examples/relative_bias.lua --random 1,8,2,512,512,64 \
--     --tensor bias=build/inputs/relative_bias/bias.npy --stats
local facc = require "facc"
local reach = 128
local bias = facc.tensor("bias", "f32", { "H", 2 * reach + 1 })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + bias[h][facc.clamp(kv - q, -reach, reach) + reach]
  end,
}
