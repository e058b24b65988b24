local facc = require "facc"
local window = facc.param("window", "i32")

return facc.attention { mask_mod = "q >= kv and q - kv ~= windw" }
