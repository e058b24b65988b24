-- Padded batches (BERT and most encoders): keys behind the end of a sequence do not count.
--   length  i32 [B]  tokens of each sequence
--
-- build/release/facc run examples/padding.lua --random 2,8,2,512,512,64 \
--     --tensor length=build/inputs/padding/length.npy --stats
local facc = require "facc"
local length = facc.tensor("length", "i32", { "B" })

return facc.attention {
  mask_mod = function(b, h, q, kv) return kv < length[b] end,
}
