-- Graphormer (Ying et al. 2021): the nodes of a graph, a bias of each head by the distance of
-- two nodes. Token 0 is the graph itself: it has one number for its distance to all.
--   distance  u8 [B, Sq, Skv]  below 64
--   spatial   f32 [H, 64]
--   virtual   f32 [H]
--
-- build/release/facc run examples/graphormer.lua --random 1,8,8,128,128,64 \
--     --tensor distance=build/inputs/graphormer/distance.npy \
--     --tensor spatial=build/inputs/graphormer/spatial.npy \
--     --tensor virtual=build/inputs/graphormer/virtual.npy --stats
local facc = require "facc"
local distance = facc.tensor("distance", "u8", { "B", "q", "kv" })
local spatial = facc.tensor("spatial", "f32", { "H", 64 })
local virtual = facc.tensor("virtual", "f32", { "H" })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    if q == 0 or kv == 0 then return score + virtual[h] end
    return score + spatial[h][distance[b][q][kv]]
  end,
}
