local facc = require "facc"
local doc = facc.tensor("doc", "i32", { "B", "kv" })
return facc.attention {
  mask_mod = function(b, h, q, kv) return doc[b][q] == doc[b][kv] and q >= kv end,
}
