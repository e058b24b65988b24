local facc = require "facc"
local doc, first = facc.tensor("doc", "i32", { "kv" }), facc.tensor("first", "i32", { "kv" })
local width = facc.param("width", "i32")
return facc.attention {
  mask_mod = function(b, h, q, kv)
    local i, j = q - first[doc[q]], kv - first[doc[kv]]
    return doc[q] == doc[kv] and i >= j and i - j <= width
  end,
}
