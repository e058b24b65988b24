-- Causal attention (every GPT): a token sees itself and what came before.
--
-- build/release/facc run examples/causal.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"

return facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv end,
}
