local facc = require "facc"
local bias = facc.tensor("bias", "f16", { "H", 257 })
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + bias[h][facc.clamp(kv - q, -128, 128) + 128]
  end,
}
