local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "heads" })
