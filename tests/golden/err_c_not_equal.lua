local facc = require "facc"

return facc.attention {
  mask_mod = function(b, h, q, kv) return q != kv end,
}
