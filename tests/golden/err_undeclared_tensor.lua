local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "H" })

return facc.attention { score_mod = "score + biases[h]" }
