-- Causal attention of two shards of one long sequence (ring attention, context parallelism):
-- where each begins is a run-time number, so all steps of the ring run one kernel.
--   q0, kv0  i32 params
--
-- build/release/facc run examples/ring_shard.lua --random 1,8,2,512,512,64 --param q0=300 \
--     --param kv0=100 --stats
local facc = require "facc"
local q0, kv0 = facc.param("q0", "i32"), facc.param("kv0", "i32")

return facc.attention {
  mask_mod = function(b, h, q, kv) return q + q0 >= kv + kv0 end,
}
