-- Streaming LLM (Xiao et al. 2023): a causal window, and the first four
-- tokens, which stay visible for ever.
local facc = require "facc"
local window, sinks = 256, 4

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and (q - kv < window or kv < sinks)
  end,
}
