-- Prefix LM (T5, GLM, PaliGemma): the first prefix[b] tokens are seen by all, the rest causally.
-- facc.mods has it; written out: kv < prefix[b] or q >= kv.
--   prefix  i32 [B]
--
-- build/release/facc run examples/prefix_lm.lua --random 1,8,2,512,512,64 \
--     --tensor prefix=build/inputs/prefix_lm/prefix.npy --stats
local facc = require "facc"
local prefix = facc.tensor("prefix", "i32", { "B" })

return facc.attention { mask_mod = facc.mods.prefix_lm(prefix) }
