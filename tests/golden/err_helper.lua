-- An error of facc's own, inside a helper: the traceback names its caller.
local facc = require "facc"
local function distance(a, b)
  local d = a - bb
  return d
end
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local d = distance(q, kv)
    return score + d
  end,
}
