-- GPT-OSS: attention sinks, a learned logit of each query head that joins the softmax and has no
-- value, so that a head may attend to (nearly) nothing. They belong to the call (--sinks, sinks= in
-- Python), not to the mods. Every other layer has a causal window of 128, the others a window as
-- long as the text.
--
--   window  i32 param
--
-- build/release/facc run examples/gpt_oss.lua --random 1,8,2,512,512,64 \
--     --param window=128 --sinks build/inputs/gpt_oss_sinks.npy --stats
local facc = require "facc"
local window = facc.param("window", "i32")

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and q - kv < window
  end,
}
