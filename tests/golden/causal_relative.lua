local facc = require "facc"
return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + (q - kv) end,
  mask_mod = function(b, h, q, kv) return q >= kv end,
}
