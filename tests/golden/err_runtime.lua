local facc = require "facc"

local function slope(h) return slopes[h] end

local function bias(h, q, kv)
  local s = slope(h)
  return s * (kv - q)
end

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local x = bias(h, q, kv)
    return score + x
  end,
}
