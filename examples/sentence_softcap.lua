-- A mod of one's own on real text: tokens see their own sentence and the first token, scores
-- are capped. Used by quickstart.sh.
--   sentence  i32 [B, Skv]  the sentence of each token
--
-- build/release/facc run examples/sentence_softcap.lua --q examples/data/q.npy \
--     --k examples/data/k.npy --v examples/data/v.npy \
--     --tensor sentence=examples/data/sentence.npy --stats
local facc = require "facc"
local sentence = facc.tensor("sentence", "i32", { "B", "kv" })
local cap = 15.0

return facc.attention {
  score_mod = function(score) return cap * math.tanh(score / cap) end,
  mask_mod = function(b, h, q, kv)
    return q >= kv and (sentence[b][q] == sentence[b][kv] or kv == 0)
  end,
}
