-- Longformer (Beltagy et al. 2020): a window on both sides, and the first tokens, which see
-- all and are seen by all. facc.mods.longformer takes a bool [Skv] tensor for them as well.
--
-- build/release/facc run examples/longformer.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local window, global = 64, 8

return facc.attention { mask_mod = facc.mods.longformer(window, global) }
