local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "q", "kv" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + bias[q] end,
}
