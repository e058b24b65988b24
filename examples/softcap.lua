-- Soft capping (Gemma 2): scores stay inside (-cap, cap). tanh is exact here;
-- softcap_fast.lua takes the hardware's.
local facc = require "facc"
local cap = 20.0

return facc.attention {
  score_mod = function(score) return cap * math.tanh(score / cap) end,
}
