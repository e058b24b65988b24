local facc = require "facc"

return facc.attention {
  mask_mod = "q >= kv && b != 1",
}
