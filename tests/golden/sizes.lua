-- Head dims are constants of a kernel; a dimension of any size.
local facc = require "facc"
local first = facc.tensor("first", "i32", { "any" })
local doc = facc.tensor("doc", "i32", { "kv" })
local on = facc.tensor("on", "bool", {})

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score * (facc.size.D / facc.size.Dv) + (q - first[doc[q]]) / facc.size.kv
  end,
  mask_mod = function(b, h, q, kv)
    if on then return kv >= first[doc[q]] end
    return true
  end,
}
