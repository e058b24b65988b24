local facc = require "facc"

return facc.attention {
  score_mod = "q >= kv ? score : 0",
}
