local facc = require "facc"
local bias = facc.tensor("bias", "bf16", { 32, "H" })
return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local d = kv - q
    local n = math.abs(d)
    local far = 8 + facc.floor(facc.log(n / 8) / math.log(16) * 8)
    local bucket = facc.where(n < 8, n, facc.min(far, 15))
    return score + bias[bucket + facc.where(d > 0, 16, 0)][h]
  end,
}
