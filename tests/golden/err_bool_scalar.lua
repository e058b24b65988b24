local facc = require "facc"
local causal = facc.tensor("causal", "bool", {})

return facc.attention {
  mask_mod = function(b, h, q, kv)
    if causal then return q >= kv end
    return true
  end,
}
