local facc = require "facc"
local id = facc.tensor("id", "i32", { "kv" })
local start = facc.tensor("start", "i32", { 64 })
local far = facc.tensor("far", "bool", { 64, 64 })
return facc.attention {
  mask_mod = function(b, h, q, kv)
    return kv - start[id[kv]] <= q - start[id[q]] and not far[id[q]][id[kv]]
  end,
}
