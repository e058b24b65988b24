-- Packed documents: a token sees the tokens of its own document alone.
-- ids[b][i] is the document of token i.
local facc = require "facc"
local ids = facc.tensor("ids", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv) return ids[b][q] == ids[b][kv] end,
}
