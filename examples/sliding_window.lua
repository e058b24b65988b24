-- Causal sliding window (Mistral 7B; Gemma's local layers): a token sees the last `window`
-- tokens, itself among them.
--   window  i32 param
--
-- build/release/facc run examples/sliding_window.lua --random 1,8,2,512,512,64 \
--     --param window=128 --stats
local facc = require "facc"
local window = facc.param("window", "i32")

return facc.attention {
  mask_mod = function(b, h, q, kv) return q >= kv and q - kv < window end,
}
