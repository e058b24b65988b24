local facc = require "facc"
local window = facc.param("window", "u8")
