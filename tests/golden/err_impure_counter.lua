local facc = require "facc"
local calls = 0

return facc.attention {
  mask_mod = function(b, h, q, kv)
    calls = calls + 1
    return q >= kv
  end,
}
