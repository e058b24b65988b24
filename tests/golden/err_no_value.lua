local facc = require "facc"

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    if q >= kv then
      return score
    end
  end,
}
