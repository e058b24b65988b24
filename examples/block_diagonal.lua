-- Blocks of `size` tokens that see themselves alone: chunks of audio, windows of a vision
-- transformer (Qwen2.5-VL). A mask of facc.mods.
--
-- build/release/facc run examples/block_diagonal.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local size = 128

return facc.attention { mask_mod = facc.mods.block_diagonal(size) }
