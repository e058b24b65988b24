local facc = require "facc"
local calls = 0

return facc.attention {
  score_mod = function(score)
    calls = calls + 1
    return score + calls
  end,
}
