-- Swin (Liu et al. 2021): windows of 7 x 7 pixels, each a sequence of its own; a bias by the
-- two-dimensional distance; in shifted windows pixels see those of their own region alone.
--   bias    f32 [169, H]  one for each of 13 x 13 distances
--   region  u8 [B, 49]    the region of each pixel; zeros where windows are not shifted
--
-- build/release/facc run examples/swin.lua --random 16,3,3,49,49,32 \
--     --tensor bias=build/inputs/swin/bias.npy --tensor region=build/inputs/swin/region.npy \
--     --stats
local facc = require "facc"
local width = 7
local span = 2 * width - 1
local bias = facc.tensor("bias", "f32", { span * span, "H" })
local region = facc.tensor("region", "u8", { "B", width * width })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local dy = q // width - kv // width + width - 1
    local dx = q % width - kv % width + width - 1
    return score + bias[dy * span + dx][h]
  end,
  mask_mod = function(b, h, q, kv) return region[b][q] == region[b][kv] end,
}
