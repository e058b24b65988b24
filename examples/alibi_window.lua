-- ALiBi inside a causal sliding window. The window is a run-time number: changing it never
-- recompiles.
--   slopes  f32 [H]
--   window  i32 param
--
-- build/release/facc run examples/alibi_window.lua --random 1,8,2,512,512,64 --param window=128 \
--     --tensor slopes=build/inputs/alibi_window/slopes.npy --stats
local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })
local window = facc.param("window", "i32")

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + slopes[h] * (kv - q) end,
  mask_mod = function(b, h, q, kv) return q >= kv and q - kv < window end,
}
