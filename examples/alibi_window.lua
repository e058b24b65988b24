-- ALiBi inside a causal sliding window. The window is a run-time number:
-- changing it never recompiles.
local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })
local window = facc.param("window", "i32")

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + slopes[h] * (kv - q) end,
  mask_mod = function(b, h, q, kv) return q >= kv and q - kv < window end,
}
