-- Windows that differ between heads (MoA, Fu et al. 2024): a short list of constants, read at a
-- traced index. As a tensor (i32 [H]) they could change from call to call.
--
-- build/release/facc run examples/head_windows.lua --random 1,8,2,512,512,64 --stats
local facc = require "facc"
local windows = { 32, 64, 64, 96, 128, 128, 256, 512 } -- 8 heads

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and q - kv < facc.lookup(windows, h + 1)
  end,
}
