-- Causal attention: a token sees itself and what came before.
local facc = require "facc"

return facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv end,
}
