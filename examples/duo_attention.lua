-- DuoAttention (Xiao et al. 2024): retrieval heads see all that came before, the other heads a
-- window and the first tokens. Heads that do not need a tile do not load it.
--   retrieval  bool [H]
--
-- build/release/facc run examples/duo_attention.lua --random 1,8,2,512,512,64 \
--     --tensor retrieval=build/inputs/duo_attention/retrieval.npy --stats
local facc = require "facc"
local window, sinks = 128, 4
local retrieval = facc.tensor("retrieval", "bool", { "H" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and (retrieval[h] or q - kv < window or kv < sinks)
  end,
}
