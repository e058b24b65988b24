-- Decomposed relative positions (MViTv2, ViTDet, Segment Anything): each query has a number
-- for every row of the image and one for every column, made beforehand from q.
--   by_row     f32 [B, H, Sq, rows]
--   by_column  f32 [B, H, Sq, columns]
--
-- build/release/facc run examples/sam_position.lua --random 1,8,2,512,512,64 \
--     --tensor by_row=build/inputs/sam_position/by_row.npy \
--     --tensor by_column=build/inputs/sam_position/by_column.npy --stats
local facc = require "facc"
local columns = 32
local by_row = facc.tensor("by_row", "f32", { "B", "H", "q", "any" })
local by_column = facc.tensor("by_column", "f32", { "B", "H", "q", columns })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + by_row[b][h][q][kv // columns] + by_column[b][h][q][kv % columns]
  end,
}
