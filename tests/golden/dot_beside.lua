-- A product that joins Q K^T, of rows that begin elsewhere in each sequence, beside a bias.
local facc = require "facc"
local qr = facc.tensor("qr", "bf16", { "B", "H", "q", 64 })
local kr = facc.tensor("kr", "bf16", { "any", 64 })
local off = facc.tensor("off", "i32", { "B" })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score - 0.125 * facc.dot(qr(b, h // 2, q), kr(off[b] + kv)) + 0.5 * (kv - q)
  end,
}
