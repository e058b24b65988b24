-- Learned relative position bias: one number per head and distance, clipped
-- at `reach` on both sides.
local facc = require "facc"
local reach = 128
local bias = facc.tensor("bias", "f32", { "H", 2 * reach + 1 })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + bias[h][facc.clamp(kv - q, -reach, reach) + reach]
  end,
}
