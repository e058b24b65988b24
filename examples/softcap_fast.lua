-- Soft capping with the GPU's own tanh: about 2e-4 less exact, much faster.
local facc = require "facc"
local cap = 20.0

return facc.attention {
  score_mod = function(score) return cap * facc.tanh_fast(score / cap) end,
}
