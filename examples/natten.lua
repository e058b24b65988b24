-- Neighbourhood attention (NATTEN, Hassani et al. 2023) on an image of `width` columns, rows
-- one after another: each pixel sees the 7 x 7 pixels around it; at the border the
-- neighbourhood moves inwards, so that it keeps its size.
--
-- build/release/facc run examples/natten.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local width, radius = 32, 3

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local height = facc.size.kv // width
    local row, col = q // width, q % width
    local top = facc.clamp(row, radius, height - 1 - radius)
    local left = facc.clamp(col, radius, width - 1 - radius)
    return math.abs(top - kv // width) <= radius
       and math.abs(left - kv % width) <= radius
  end,
}
