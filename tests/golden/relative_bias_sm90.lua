-- One number of the head on each side.
local facc = require "facc"
local bias = facc.tensor("bias", "bf16", { "H", 65 })
return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + bias[h][facc.clamp(q - kv, -16, 48) + 16] end,
}
