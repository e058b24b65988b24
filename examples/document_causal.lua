-- Packed documents, causal inside each (pre-training of Llama 3): two masks of facc.mods put
-- together.
--   ids  i32 [B, Skv]  the document of each token
--
-- build/release/facc run examples/document_causal.lua --random 1,8,2,512,512,64 \
--     --tensor ids=build/inputs/document_causal/ids.npy --stats
local facc = require "facc"
local ids = facc.tensor("ids", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = facc.mods.and_masks(facc.mods.causal, facc.mods.document(ids)),
}
