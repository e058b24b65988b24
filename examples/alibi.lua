-- ALiBi (Press et al. 2022; BLOOM, MPT, Baichuan 13B): the farther a key is, the lower its
-- score, with a slope of its own for each head. As here, without a mask.
--   slopes  f32 [H]  2^(-8 (h + 1) / H)
--
-- build/release/facc run examples/alibi.lua --random 1,8,2,512,512,64 \
--     --tensor slopes=build/inputs/alibi/slopes.npy --stats
local facc = require "facc"
local slopes = facc.tensor("slopes", "f32", { "H" })

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + slopes[h] * (kv - q) end,
}
