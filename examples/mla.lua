-- Multi-head latent attention (DeepSeek-V2, V3), its decoupled rotary part: Q and K are the
-- parts without position, 128 wide there; the rotary part, 64 wide, has one key for all heads.
-- Both share the scale 1 / sqrt(128 + 64).
--   q_rope  f16 [B, H, Sq, 64]
--   k_rope  f16 [B, Skv, 64]
--
-- build/release/facc run examples/mla.lua --random 1,8,8,512,512,128 --scale 0.0721687836 \
--     --tensor q_rope=build/inputs/mla/q_rope.npy --tensor k_rope=build/inputs/mla/k_rope.npy \
--     --stats
local facc = require "facc"
local rope = 64
local scale = (128 + rope) ^ -0.5
local q_rope = facc.tensor("q_rope", "f16", { "B", "H", "q", rope })
local k_rope = facc.tensor("k_rope", "f16", { "B", "kv", rope })

return facc.attention {
  score_mod = function(score, b, h, q, kv)
    return score + scale * facc.dot(q_rope[b][h][q], k_rope[b][kv])
  end,
}
