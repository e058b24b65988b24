-- Chunked attention (Llama 4's local layers): causal inside chunks of `chunk` tokens (8192
-- there). A mod may be an expression, in which params and tensors have their names.
--   chunk  i32 param
--
-- build/release/facc run examples/chunked.lua --random 1,8,2,512,512,64 --param chunk=128 \
--     --stats
local facc = require "facc"
facc.param("chunk", "i32")

return facc.attention { mask_mod = "q >= kv and q // chunk == kv // chunk" }
