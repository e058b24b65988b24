-- Text and images in one sequence (Transfusion, Zhou et al. 2024; Gemma 3): causal,
-- but the tokens of one image see each other in both directions.
--   image  i32 [B, Skv]  the image of each token, 0: text
--
-- build/release/facc run examples/causal_images.lua --random 1,8,2,512,512,64 \
--     --tensor image=build/inputs/causal_images/image.npy --stats
local facc = require "facc"
local image = facc.tensor("image", "i32", { "B", "kv" })

return facc.attention {
  mask_mod = function(b, h, q, kv)
    return q >= kv or (image[b][q] == image[b][kv] and image[b][kv] > 0)
  end,
}
