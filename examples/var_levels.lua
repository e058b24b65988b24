-- Next-scale prediction (VAR, Tian et al. 2024): an image as maps of 1 x 1, 2 x 2, ... 16 x 16
-- tokens, 680 in all; a token sees its own map and the coarser ones. The mod is ordinary Lua:
-- it counts the maps before a token.
--
-- build/release/facc run examples/var_levels.lua --random 1,8,2,680,680,64 --stats
local facc = require "facc"

local ends, tokens = {}, 0
for _, side in ipairs { 1, 2, 3, 4, 5, 6, 8, 10, 13, 16 } do
  tokens = tokens + side * side
  ends[#ends + 1] = tokens
end

local function level(i)
  return facc.sum(#ends, function(k) return i >= ends[k + 1] and 1 or 0 end)
end

return facc.attention {
  mask_mod = function(b, h, q, kv) return level(q) >= level(kv) end,
}
