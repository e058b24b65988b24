local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "H" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + bias(h, q) end,
}
