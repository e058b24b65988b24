-- Sliding Tile Attention on video (STA, Zhang et al. 2025; 3-D NATTEN is the same with tiles of
-- one token): tokens lie tile by tile; each tile sees the 3 x 3 x 3 tiles around it, moved
-- inwards at the borders. A tile of as many tokens as the kernel's is skipped or taken whole.
--
-- build/release/facc run examples/sliding_tile.lua --random 1,8,2,1536,1536,64 --stats
local facc = require "facc"
local tile = 32                      -- tokens of a tile: 2 x 4 x 4
local times, rows, columns = 4, 3, 4 -- tiles of the video

local function place(token)
  local n = token // tile
  return n // (rows * columns), n // columns % rows, n % columns
end

local function near(x, y, size) return math.abs(facc.clamp(x, 1, size - 2) - y) <= 1 end

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local t1, y1, x1 = place(q)
    local t2, y2, x2 = place(kv)
    return near(t1, t2, times) and near(y1, y2, rows) and near(x1, x2, columns)
  end,
}
