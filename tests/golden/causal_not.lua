-- another spelling of causal: the same graph
return require("facc").attention {
  mask_mod = function(b, h, q, kv)
    if q - kv + 1 > 0 then return true end
    return not (q < kv) and kv <= q
  end,
}
