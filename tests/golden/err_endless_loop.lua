local facc = require "facc"

return facc.attention {
  mask_mod = function(b, h, q, kv)
    local i = 0
    while true do i = i + 1 end
    return q >= i
  end,
}
