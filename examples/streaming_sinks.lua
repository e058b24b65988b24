-- Streaming LLM (Xiao et al. 2023): a causal window, and the first four tokens, the sinks,
-- which stay visible for ever.
--
-- build/release/facc run examples/streaming_sinks.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local window, sinks = 256, 4

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and (q - kv < window or kv < sinks)
  end,
}
