-- Soft capping (Gemma 2, Grok-1): scores stay inside (-cap, cap). tanh is exact here;
-- softcap_fast.lua takes the hardware's.
--
-- build/release/facc run examples/softcap.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local cap = 20.0 -- Gemma 2: 50, Grok-1: 30

return facc.attention {
  score_mod = function(score) return cap * math.tanh(score / cap) end,
}
