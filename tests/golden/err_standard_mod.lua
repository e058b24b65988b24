local facc = require "facc"
local window

return facc.attention { mask_mod = facc.mods.sliding_window(window) }
