-- Packed documents by their offsets, causal inside each: a load at a loaded index. Here in one
-- sequence of the batch; cu_seqlens (packed.py) makes sequences of them instead.
--   ids     i32 [Skv]        the document of each token
--   starts  i32 [documents]  the first token of each document
--
-- build/release/facc run examples/packed_causal.lua --random 1,8,2,512,512,64 \
--     --tensor ids=build/inputs/packed_causal/ids.npy \
--     --tensor starts=build/inputs/packed_causal/starts.npy --stats
local facc = require "facc"
local ids = facc.tensor("ids", "i32", { "kv" })
local starts = facc.tensor("starts", "i32", { "any" })

return facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv and kv >= starts[ids[q]] end,
}
