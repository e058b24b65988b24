local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "B", "H", "q" })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + bias[b, h][q]
  end,
}
