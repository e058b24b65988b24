-- Scores that grow with the position beyond the length of training (Qwen's logn attention;
-- Llama 4 has a like temperature): a factor of the row alone.
--   trained  f32 param
--
-- build/release/facc run examples/logn.lua --random 1,8,2,512,512,64 --param trained=128 \
--     --stats
local facc = require "facc"
local trained = facc.param("trained", "f32")

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score * math.max(1.0, math.log(q + 1) / math.log(trained))
  end,
  mask_mod = facc.mods.causal,
}
