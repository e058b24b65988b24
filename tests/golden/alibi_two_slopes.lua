local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })
local far = facc.param("far", "f32")
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return 0.5 * score - (slopes[h] * (q - kv) + far * (2 * q - kv))
  end,
}
