local facc = require "facc"

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local n = 0
    while (q ~ n) % 1000 < kv do
      n = n + 1
    end
    return score + n
  end,
}
