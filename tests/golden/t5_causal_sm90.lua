-- Keys 91 and more before the query have one bucket; those after it none.
local facc = require "facc"
local bias = facc.tensor("bias", "f32", { 32, "H" })
return facc.attention {
  score_mod = facc.mods.t5_bias(bias),
  mask_mod = facc.mods.causal,
}
