local facc = require "facc"
local slopes = { 0.5, 0.25, 0.125, 0.0625 }

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local slope = slopes[h + 1] or 0
    return score + slope * (kv - q)
  end,
}
