local facc = require "facc"
local window = facc.param("window", "i32")

return facc.attention {
  mask_mod = function(b, h, q, kv) return q - kv == windw end,
}
