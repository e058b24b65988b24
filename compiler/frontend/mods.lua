-- The standard mods, and functions composed of others: ordinary Lua over
-- facc. Loaded when a file first asks for one; `functions` are found under
-- facc.* and math.*.
local facc = require "facc"
local mods, functions = {}, {}

-- ---- functions ------------------------------------------------------------

function functions.relu(x) return facc.max(x, 0) end
function functions.silu(x) return x * facc.sigmoid(x) end
function functions.softplus(x) return facc.max(x, 0.0) + facc.log(1 + facc.exp(-facc.abs(x))) end
function functions.rcp(x) return 1 / x end
-- A sum that may be fused with the product.
function functions.fma(x, y, z) return x * y + z end
-- -1, 0 or 1
function functions.sign(x)
  return facc.where(function() return x > 0 end, 1,
    facc.where(function() return x < 0 end, -1, 0))
end
function functions.gelu(x) return 0.5 * x * (1 + facc.erf(x * 0.7071067811865476)) end
function functions.gelu_tanh(x)
  return 0.5 * x * (1 + facc.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))
end

-- ---- helpers --------------------------------------------------------------

-- Errors name the caller's line.
local function expect(ok, name, what, value, level)
  if not ok then
    error("facc.mods." .. name .. ": expected " .. what .. ", got " .. type(value), level or 3)
  end
end

local function is_tensor(x) return type(x) == "tensor" end
-- A tensor of rank 0 is its value.
local function is_number(x)
  return type(x) == "number" or is_tensor(x) and facc.rank(x) == 0
end

-- A number, or a tensor with one number for each sequence.
local function per_sequence(x, b)
  if is_tensor(x) and facc.rank(x) == 1 then return x[b] end
  return x
end

-- ids[i] or ids[b][i]
local function per_token(ids, b, i)
  if facc.rank(ids) == 2 then return ids[b][i] end
  return ids[i]
end

-- list[i] of a Lua list by a traced i, which counts from 1: one select for each
-- element. Beyond its ends: the last element.
function functions.lookup(list, i)
  if type(list) ~= "table" or #list == 0 then
    error("facc.lookup: expected a list of values, got "
          .. (type(list) == "table" and "an empty one" or type(list)), 2)
  end
  if not is_number(i) then error("facc.lookup: expected a number, got " .. type(i), 2) end
  local value = list[#list]
  for k = #list - 1, 1, -1 do
    value = facc.where(function() return i == k end, list[k], value)
  end
  return value
end

-- ---- masks ----------------------------------------------------------------

function mods.causal(b, h, q, kv) return q >= kv end

-- The last query sees the last key, whatever the lengths.
function mods.causal_bottom_right(b, h, q, kv)
  return q + facc.len.kv(b) - facc.len.q(b) >= kv
end

-- Causal; each token sees the last `window` tokens, itself among them.
function mods.sliding_window(window)
  expect(is_number(window) or is_tensor(window), "sliding_window", "a number", window)
  return function(b, h, q, kv)
    return q >= kv and q - kv < per_sequence(window, b)
  end
end

-- The first n tokens are seen by all, the rest causally.
function mods.prefix_lm(n)
  expect(is_number(n) or is_tensor(n), "prefix_lm", "a number or a tensor", n)
  return function(b, h, q, kv) return kv < per_sequence(n, b) or q >= kv end
end

-- Tokens of one document see each other.
function mods.document(ids)
  expect(is_tensor(ids), "document", "a tensor", ids)
  return function(b, h, q, kv) return per_token(ids, b, q) == per_token(ids, b, kv) end
end

-- Every `step`-th token within `reach`, on both sides.
function mods.dilated(reach, step)
  expect(is_number(reach), "dilated", "a number", reach)
  expect(is_number(step), "dilated", "a number", step)
  return function(b, h, q, kv)
    local distance = math.abs(q - kv)
    return distance <= reach and distance % step == 0
  end
end

-- Longformer: a window on both sides, and global tokens that see all and are
-- seen by all. global: a bool tensor over tokens, or their number.
function mods.longformer(window, global)
  expect(is_number(window), "longformer", "a number", window)
  expect(is_number(global) or is_tensor(global), "longformer", "a number or a tensor", global)
  local function is_global(b, i)
    if is_number(global) then return i < global end
    return per_token(global, b, i)
  end
  return function(b, h, q, kv)
    return math.abs(q - kv) <= window or is_global(b, q) or is_global(b, kv)
  end
end

-- A causal window, and the first `sinks` tokens, which stay visible.
function mods.sinks_window(sinks, window)
  expect(is_number(sinks), "sinks_window", "a number", sinks)
  expect(is_number(window), "sinks_window", "a number", window)
  return function(b, h, q, kv) return q >= kv and (q - kv < window or kv < sinks) end
end

-- Blocks of `size` tokens that see themselves alone.
function mods.block_diagonal(size)
  expect(is_number(size), "block_diagonal", "a number", size)
  return function(b, h, q, kv) return q // size == kv // size end
end

-- Neighbourhood attention on an image, row after row: each pixel sees the
-- kernel x kernel pixels around it; at the border the neighbourhood moves
-- inwards. kernel is odd.
function mods.natten(height, width, kernel)
  expect(is_number(height), "natten", "a number", height)
  expect(is_number(width), "natten", "a number", width)
  expect(is_number(kernel), "natten", "a number", kernel)
  return function(b, h, q, kv)
    local radius = kernel // 2
    local top = facc.clamp(q // width, radius, height - 1 - radius)
    local left = facc.clamp(q % width, radius, width - 1 - radius)
    return math.abs(top - kv // width) <= radius
       and math.abs(left - kv % width) <= radius
  end
end

-- ---- logic ----------------------------------------------------------------

local function each_function(name, ...)
  local list = { ... }
  for i = 1, select("#", ...) do
    expect(type(list[i]) == "function", name, "functions", list[i], 4)
  end
  return list
end

function mods.and_masks(...)
  local masks = each_function("and_masks", ...)
  return function(b, h, q, kv)
    for i = 1, #masks do
      if not masks[i](b, h, q, kv) then return false end
    end
    return true
  end
end

function mods.or_masks(...)
  local masks = each_function("or_masks", ...)
  return function(b, h, q, kv)
    for i = 1, #masks do
      if masks[i](b, h, q, kv) then return true end
    end
    return false
  end
end

function mods.not_mask(mask)
  expect(type(mask) == "function", "not_mask", "a function", mask)
  return function(b, h, q, kv) return not mask(b, h, q, kv) end
end

-- ---- scores ---------------------------------------------------------------

-- ALiBi: slopes is a tensor over heads, or left out: 2^(-8 (h + 1) / H).
function mods.alibi(slopes)
  expect(slopes == nil or is_tensor(slopes), "alibi", "a tensor", slopes)
  return function(score, b, h, q, kv)
    local slope = slopes and slopes[h] or mods.alibi_slopes(h)
    return score + slope * (kv - q)
  end
end

-- The slope of head h of a power of two of heads.
function mods.alibi_slopes(h)
  return facc.exp2(-8.0 * (h + 1) / facc.size.H)
end

-- Scores stay inside (-cap, cap).
function mods.softcap(cap)
  expect(is_number(cap) or is_tensor(cap), "softcap", "a number", cap)
  return function(score) return cap * facc.tanh(score / cap) end
end

-- The same with the GPU's own tanh.
function mods.softcap_fast(cap)
  expect(is_number(cap) or is_tensor(cap), "softcap_fast", "a number", cap)
  return function(score) return cap * facc.tanh_fast(score / cap) end
end

-- A learned number for each distance kv - q, clipped at `reach` on both sides:
-- bias[distance + reach] or bias[h][distance + reach].
function mods.relative_bias(bias, reach)
  expect(is_tensor(bias), "relative_bias", "a tensor", bias)
  expect(is_number(reach), "relative_bias", "a number", reach)
  return function(score, b, h, q, kv)
    local at = facc.clamp(kv - q, -reach, reach) + reach
    if facc.rank(bias) == 2 then return score + bias[h][at] end
    return score + bias[at]
  end
end

-- T5's relative bias, bidirectional: bias[bucket][h], an even number of
-- buckets (32), distances up to max_distance (128).
function mods.t5_bias(bias, buckets, max_distance)
  buckets, max_distance = buckets or 32, max_distance or 128
  expect(is_tensor(bias), "t5_bias", "a tensor", bias)
  expect(math.type(buckets) == "integer", "t5_bias", "an integer", buckets)
  expect(is_number(max_distance), "t5_bias", "a number", max_distance)
  local half, near = buckets // 2, buckets // 4
  -- far distances share buckets of growing width: the first distance of each
  local edges = {}
  for k = 1, half - near - 1 do
    local edge = near
    while near + (math.log(edge / near) / math.log(max_distance / near)
                  * (half - near)) // 1 < near + k do
      edge = edge + 1
    end
    edges[k] = edge
  end
  return function(score, b, h, q, kv)
    local distance = math.abs(kv - q)
    local far = facc.sum(#edges, function(k) return distance >= edges[k + 1] and 1 or 0 end)
    local side = facc.where(function() return kv > q end, half, 0)
    return score + bias[side + math.min(distance, near) + far][h]
  end
end

-- Score mods one after another, left to right.
function mods.compose(...)
  local list = each_function("compose", ...)
  return function(score, b, h, q, kv)
    for i = 1, #list do score = list[i](score, b, h, q, kv) end
    return score
  end
end

return { mods = mods, functions = functions }
