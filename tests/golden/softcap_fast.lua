local facc = require "facc"
return facc.attention {
  score_mod = function(score, b, h, q, kv) return 20 * facc.tanh_fast(score / 20) end,
  mask_mod = function(b, h, q, kv) return q >= kv end,
}
