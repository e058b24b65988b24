-- A bias of 16 bits, whose tiles family sm90 copies: for tests/api/kernels.sh.
local facc = require "facc"
local bias = facc.tensor("bias", "bf16", { "H", "q", "kv" })
return facc.attention { score_mod = "score + bias[h][q][kv]" }
