local facc = require "facc"
local bias, gate = facc.tensor("bias", "f32", { "kv" }), facc.param("gate", "f32")
return facc.attention {
  mask_mod = function(b, h, q, kv)
    local slope = facc.exp(bias[kv]) * gate + 0.5
    return (q - kv) * slope < 100 and bias[q] * gate + 1 > bias[kv]
  end,
}
