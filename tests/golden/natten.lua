local facc = require "facc"
local width, kernel = 32, 7
local function near(q, kv, n)
  local center = facc.clamp(q, kernel // 2, n - 1 - kernel // 2)
  return math.abs(center - kv) <= kernel // 2
end
return facc.attention {
  mask_mod = function(b, h, q, kv)
    return near(q // width, kv // width, width) and near(q % width, kv % width, width)
  end,
}
