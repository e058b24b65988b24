-- Longformer (Beltagy et al. 2020): a window on both sides, and the first
-- tokens, which see all and are seen by all.
local facc = require "facc"
local window, global = 64, 8

return facc.attention { mask_mod = facc.mods.longformer(window, global) }
