local facc = require "facc"

return facc.attention {
  score_mod = function(score) return score * "2" end,
}
