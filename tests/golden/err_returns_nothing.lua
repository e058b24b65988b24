local facc = require "facc"

facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv end,
}
