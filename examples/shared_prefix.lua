-- Several continuations of one prompt, one behind the other (Hydragen, prefix sharing; answers
-- of one question in RL and DPO): a token sees the prompt and what came before it in its own
-- continuation. tree.lua has prompts of prompts.
--   branch  i32 [B, Skv]  the continuation of each token, 0 in the prompt
--
-- build/release/facc run examples/shared_prefix.lua --random 1,8,2,512,512,64 \
--     --tensor branch=build/inputs/shared_prefix/branch.npy --stats
local facc = require "facc"
local branch = facc.tensor("branch", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and (branch[b][kv] == 0 or branch[b][q] == branch[b][kv])
  end,
}
