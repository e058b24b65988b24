-- Blocks of `size` tokens that see themselves alone: chunks of audio, say.
local facc = require "facc"
local size = 128

return facc.attention { mask_mod = facc.mods.block_diagonal(size) }
