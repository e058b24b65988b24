local facc = require "facc"
local active = facc.tensor("active", "bool", { "kv", 16 })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    for k = 0, 15 do
      if active[kv][k] then score = score + k end
    end
    return score
  end,
}
