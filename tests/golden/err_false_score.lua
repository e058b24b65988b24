local facc = require "facc"

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    if h == 0 then return score end
    return q >= kv and score
  end,
}
