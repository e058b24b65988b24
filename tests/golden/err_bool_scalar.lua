local facc = require "facc"
local causal = facc.tensor("causal", "bool", {})
local offset = causal and 1 or 0

return facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv + offset end,
}
