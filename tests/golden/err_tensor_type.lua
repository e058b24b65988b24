local facc = require "facc"
local bias = facc.tensor("bias", "float", { "H" })
