-- Dilated window (Longformer, Beltagy et al. 2020; DiNA): every `step`-th token within `reach`.
--
-- build/release/facc run examples/dilated.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local reach, step = 256, 4

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local distance = math.abs(q - kv)
    return distance <= reach and distance % step == 0
  end,
}
