-- Packed documents: a token sees the tokens of its own document alone.
--   ids  i32 [B, Skv]  the document of each token
--
-- build/release/facc run examples/document.lua --random 1,8,2,512,512,64 \
--     --tensor ids=build/inputs/document/ids.npy --stats
local facc = require "facc"
local ids = facc.tensor("ids", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv) return ids[b][q] == ids[b][kv] end,
}
