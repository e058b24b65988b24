-- Sparse Transformer's strided pattern (Child et al. 2019): the last `stride` tokens, and
-- before them every `stride`-th.
--
-- build/release/facc run examples/sparse_transformer.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local stride = 32

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and (q - kv < stride or (q - kv) % stride == 0)
  end,
}
