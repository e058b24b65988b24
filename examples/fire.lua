-- FIRE (Li et al. 2024): a small network makes the bias from the distance, relative to how far
-- back a query can look. Cells that are masked may give NaN here (the logarithm of a negative
-- number): what is masked never counts.
--   c, far         f32 params, learned
--   w1, b1         f32 [8]      the hidden layer
--   w2, b2         f32 [H, 8] and [H]
--
-- build/release/facc run examples/fire.lua --random 1,8,2,512,512,64 --param c=0.1 \
--     --param far=64 --tensor w1=build/inputs/fire/w1.npy --tensor b1=build/inputs/fire/b1.npy \
--     --tensor w2=build/inputs/fire/w2.npy --tensor b2=build/inputs/fire/b2.npy --stats
local facc = require "facc"
local width = 8
local c, far = facc.param("c", "f32"), facc.param("far", "f32")
local w1, b1 = facc.tensor("w1", "f32", { width }), facc.tensor("b1", "f32", { width })
local w2, b2 = facc.tensor("w2", "f32", { "H", width }), facc.tensor("b2", "f32", { "H" })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local x = math.log(c * (q - kv) + 1) / math.log(c * math.max(q, far) + 1)
    return score + b2[h] + facc.sum(width, function(k)
      return w2[h][k] * facc.relu(w1[k] * x + b1[k])
    end)
  end,
  mask_mod = facc.mods.causal,
}
