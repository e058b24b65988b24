-- Token merging (ToMe, Bolya et al. 2023), proportional attention: a key that stands for n
-- tokens counts n times. The logarithm is taken once a column, not once a cell.
--   mass  f16 [B, Skv]  how many tokens each stands for
--
-- build/release/facc run examples/token_merging.lua --random 1,8,2,512,512,64 \
--     --tensor mass=build/inputs/token_merging/mass.npy --stats
local facc = require "facc"
local mass = facc.tensor("mass", "f16", { "B", "kv" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + math.log(mass[b][kv]) end,
}
