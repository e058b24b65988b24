-- Causal attention with a cache (decoding, chunked prefill): the queries are the last tokens
-- of the sequence. q counts from 0 as kv does, so the lengths of sequence b shift it. Also
-- facc.mods.causal_bottom_right.
--
-- build/release/facc run examples/causal_bottom_right.lua --random 1,8,2,128,512,64 --stats
local facc = require "facc"

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q + facc.len.kv(b) - facc.len.q(b) >= kv
  end,
}
