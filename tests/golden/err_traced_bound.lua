local facc = require "facc"

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    for i = 0, h do score = score * 0.5 end
    return score
  end,
}
