local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "H" })

return facc.attention {
  score_mod = function(score, b, h) return score + bias.data[h] end,
}
