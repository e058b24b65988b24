local facc = require "facc"
local first

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    first = first or q
    return score + (kv - first)
  end,
}
