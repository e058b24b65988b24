local facc = require "facc"
local stamp = facc.tensor("stamp", "i64", { "kv" })
local age = facc.param("age", "i64")
return facc.attention {
  mask_mod = function(b, h, q, kv)
    return stamp[q] >= stamp[kv] and stamp[kv] % 1000003 > age and (kv * 65537) % 7 ~= 3
  end,
}
