local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "B", "H", "q", "kv" })
local row = facc.tensor("row", "e4m3", { "q" })
return facc.attention {
  score_mod = function(score, b, h, q, kv) return 2 * score + bias[b][h][q][kv] + row[q] end,
}
