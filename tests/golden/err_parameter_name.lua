local facc = require "facc"
local h = facc.param("h", "i32")

return facc.attention { mask_mod = "q - kv < h" }
