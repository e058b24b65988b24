-- Packed documents, causal inside each: two masks of facc.mods put together.
local facc = require "facc"
local ids = facc.tensor("ids", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = facc.mods.and_masks(facc.mods.causal, facc.mods.document(ids)),
}
