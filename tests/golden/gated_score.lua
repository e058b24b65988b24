-- a score of -inf is mask; a mask that reads the score
local facc = require "facc"
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    if q < kv then return -math.huge end
    return score > 0.5 and facc.sigmoid(score) * score or -math.huge
  end,
}
