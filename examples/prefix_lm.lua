-- Prefix LM: the first prefix[b] tokens are seen by all, the rest causally.
-- facc.mods has it; written out: kv < prefix[b] or q >= kv.
local facc = require "facc"
local prefix = facc.tensor("prefix", "i32", { "B" })

return facc.attention { mask_mod = facc.mods.prefix_lm(prefix) }
