local facc = require "facc"
local cap = facc.param("cap", "f32")
return facc.attention {
  score_mod = function(score, b, h, q, kv) return cap * facc.tanh(score / cap) end,
}
