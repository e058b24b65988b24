local facc = require "facc"
local bias = facc.tensor("bias", "f32", { "H" })
local scale = facc.param("bias", "f32")
