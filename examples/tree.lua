-- Trees of any size (many continuations of many prompts, as in RadixAttention or training on
-- trees of thoughts), token after token in depth-first order: the tokens below kv are those up
-- to last[kv], so two comparisons say whether kv is an ancestor of q.
--   last  i32 [B, Skv]  the last token below each
--
-- build/release/facc run examples/tree.lua --random 1,8,2,512,512,64 \
--     --tensor last=build/inputs/tree/last.npy --stats
local facc = require "facc"
local last = facc.tensor("last", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv and q <= last[b][kv] end,
}
