local facc = require "facc"

return facc.attention {
  mask = function(b, h, q, kv) return q >= kv end,
}
