-- T5's relative bias (bidirectional, 32 buckets, distances up to 128): near
-- distances have a bucket each, far ones share buckets of growing width.
local facc = require "facc"
local table = facc.tensor("table", "f32", { 32, "H" })

local function bucket(distance)
  local n = math.abs(distance)
  local far = 8 + math.floor(math.log(n / 8) / math.log(16) * 8)
  local side = facc.where(function() return distance > 0 end, 16, 0)
  return side + facc.where(function() return n < 8 end, n, math.min(far, 15))
end

return facc.attention {
  score_mod = function(score, b, h, q, kv) return score + table[bucket(kv - q)][h] end,
}
