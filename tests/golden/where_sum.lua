local facc = require "facc"
local gate = facc.tensor("gate", "bool", { "H" })
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local steps = facc.sum(4, function(k) return facc.where(q - kv > 16 * k, 0.5, 0) end)
    return score - facc.where(gate[h], steps, 0)
  end,
  mask_mod = function(b, h, q, kv)
    return facc.any(3, function(k) return kv // 64 == q // 64 - k end)
  end,
}
