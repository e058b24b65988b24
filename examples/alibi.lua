-- ALiBi (Press et al. 2022): the farther a key is, the lower its score, with
-- a slope of its own for each head. As here, without a mask.
local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + slopes[h] * (kv - q) end,
}
