local facc = require "facc"
local prefix = facc.tensor("prefix", "i32", { "B" })
return facc.attention {
  mask_mod = function(b, h, q, kv) return kv < prefix[b] or q >= kv end,
}
