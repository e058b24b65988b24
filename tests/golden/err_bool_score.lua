local facc = require "facc"

return facc.attention {
  score_mod = function(score, b, h, q, kv) return q >= kv end,
}
