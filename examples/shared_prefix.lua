-- Several continuations of one prompt, one behind the other: a token sees the
-- prompt and what came before it in its own continuation. branch[b][i] is the
-- continuation of token i, 0 in the prompt.
local facc = require "facc"
local branch = facc.tensor("branch", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv and (branch[b][kv] == 0 or branch[b][q] == branch[b][kv])
  end,
}
