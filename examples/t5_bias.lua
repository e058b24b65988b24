-- T5's relative bias (Raffel et al. 2020; bidirectional, 32 buckets, distances up to 128): a
-- near distance has a bucket of its own, far ones share buckets of growing width.
--   bias  f32 [32, H]
--
-- build/release/facc run examples/t5_bias.lua --random 1,8,2,512,512,64 \
--     --tensor bias=build/inputs/t5_bias/bias.npy --stats
local facc = require "facc"
local bias = facc.tensor("bias", "f32", { 32, "H" })
local edges = { 12, 16, 23, 32, 46, 64, 91 } -- 8 * 2^(k/2), rounded up

local function bucket(distance)
  local n = math.abs(distance)
  local far = facc.sum(#edges, function(k) return n >= edges[k + 1] and 1 or 0 end)
  local side = facc.where(function() return distance > 0 end, 16, 0)
  return side + math.min(n, 8) + far
end

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + bias[bucket(kv - q)][h] end,
}
