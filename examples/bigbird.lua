-- BigBird (Zaheer et al. 2020), in blocks of 64 tokens: neighbours, the first block from and
-- to everywhere, and for each block and head three others that were drawn at random.
--   random  i32 [H, blocks, 3]
--
-- build/release/facc run examples/bigbird.lua --random 1,8,2,1024,1024,64 \
--     --tensor random=build/inputs/bigbird/random.npy --stats
local facc = require "facc"
local size = 64
local random = facc.tensor("random", "i32", { "H", "any", 3 })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local x, y = q // size, kv // size
    return math.abs(x - y) <= 1 or x == 0 or y == 0
        or facc.any(3, function(k) return random[h][x][k] == y end)
  end,
}
