local facc = require "facc"
local t = facc.tensor("t", "i64", {"q"})
local u = facc.tensor("u", "i64", {"kv"})
return facc.attention { mask_mod = function(b,h,q,kv) return t[q] - 1 > u[kv] and (t[q] - u[kv]) + q - kv < 5 end }
