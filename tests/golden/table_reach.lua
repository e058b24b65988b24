local facc = require "facc"
local near = facc.tensor("near", "bool", { 9 })
return facc.attention {
  mask_mod = function(b, h, q, kv) return near[facc.clamp(q - kv, -4, 4) + 4] end,
}
