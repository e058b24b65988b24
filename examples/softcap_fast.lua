-- Soft capping with the GPU's own tanh: about 2e-4 less exact, much faster. The mod is
-- facc.mods' form of: cap * facc.tanh_fast(score / cap).
--
-- build/release/facc run examples/softcap_fast.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"

return facc.attention { score_mod = facc.mods.softcap_fast(20.0) }
