-- Block diffusion (BD3-LM, Arriola et al. 2025), training: a noised copy of the text, then the
-- clean one. A noised block sees itself and the clean blocks before it, a clean block itself
-- and the clean blocks before it.
--
-- build/release/facc run examples/block_diffusion.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local size = 32

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local half = facc.size.kv // 2
    local clean_q, clean_kv = q >= half, kv >= half
    local block_q, block_kv = q % half // size, kv % half // size
    if clean_q then return clean_kv and block_q >= block_kv end
    if clean_kv then return block_q > block_kv end
    return block_q == block_kv
  end,
}
