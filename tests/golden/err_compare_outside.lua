local facc = require "facc"
local window = facc.param("window", "i32")
local wide = window > 1024

return facc.attention {
  mask_mod = function(b, h, q, kv) return wide or q - kv < window end,
}
