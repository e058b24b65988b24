-- Dilated window (Longformer): every `step`-th token within `reach`.
local facc = require "facc"
local reach, step = 256, 4

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local distance = math.abs(q - kv)
    return distance <= reach and distance % step == 0
  end,
}
