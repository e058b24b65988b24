local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + slopes[h] * (kv - q)
  end,
  mask_mod = function(b, h, q, kv) return q >= kv end,
}
