-- Q and K that were scaled into FP8's range: the factors that undo it, here for each sequence
-- and KV head (FlashAttention 3's q_descale and k_descale). For blocks of 128 keys:
-- k_descale[b][h_kv][kv // 128]. V's factor is the output's: multiply that.
--   q_descale  f32 [B, Hkv]
--   k_descale  f32 [B, Hkv]
--
-- build/release/facc run examples/fp8_descale.lua --random 1,8,2,512,512,64 \
--     --tensor q_descale=build/inputs/fp8_descale/q_descale.npy \
--     --tensor k_descale=build/inputs/fp8_descale/k_descale.npy --stats
local facc = require "facc"
local q_descale = facc.tensor("q_descale", "f32", { "B", "Hkv" })
local k_descale = facc.tensor("k_descale", "f32", { "B", "Hkv" })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    local h_kv = h // (facc.size.H // facc.size.Hkv)
    return score * (q_descale[b][h_kv] * k_descale[b][h_kv])
  end,
}
