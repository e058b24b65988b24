-- Packed documents, causal inside each.
local facc = require "facc"
local ids = facc.tensor("ids", "i32", { "B", "kv" })

local function causal(b, h, q, kv) return q >= kv end
local function same_document(b, h, q, kv) return ids[b][q] == ids[b][kv] end

return facc.attention {
  mask_mod = facc.mods.and_masks(causal, same_document),
}
