local facc = require "facc"
local block = 0

return facc.attention {
  mask_mod = function(b, h, q, kv) return q // block == kv // block end,
}
