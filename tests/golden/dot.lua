-- A dot product of a row's and a column's vector, and one of row scope.
local facc = require "facc"
local qr = facc.tensor("qr", "f16", { "B", "H", "q", 64 })
local kr = facc.tensor("kr", "bf16", { "B", "Hkv", "kv", 64 })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local group = facc.size.H // facc.size.Hkv
    return score + 0.125 * facc.dot(qr(b, h, q), kr(b, h // group, kv))
         - facc.dot(qr[b][h][q], qr(b, h, 0))
  end,
}
