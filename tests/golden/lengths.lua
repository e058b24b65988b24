local facc = require "facc"
return facc.attention {
  mask_mod = function(b, h, q, kv)
    return kv < facc.len.kv(b) and b % 2 == 0
      and kv + facc.size.q >= q + facc.size.kv
  end,
}
