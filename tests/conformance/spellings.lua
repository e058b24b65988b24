local want = "loops_and_goto"
-- Ways to say things in Lua: control flow, tables, closures, numbers, strings.
-- Row by row as scores.lua and masks.lua.
local facc = require "facc"
local S, inf = 2048, math.huge
local T, P, mods = facc.tensor, facc.param, facc.mods

local chosen = {}
local function row(name) return name == want end
local function score(f) chosen.score_mod = f end
local function mask(f) chosen.mask_mod = f end

local function causal(b, h, i, j) return i >= j end

-- ---- ways to say it -------------------------------------------------------------------

if row "loops_and_goto" then -- Lua's own control flow over traced comparisons
  mask(function(b, h, i, j)
    local n, k = 0, 0
    while true do
      k = k + 1
      if k > 4 then break end
      if (i // 32 + k) % 3 == 0 then goto continue end
      if (i + k * 64) // 64 == j // 64 then n = n + 1 end
      ::continue::
    end
    repeat k = k - 1 until k == 0
    return n > 0 or i == j
  end)
end
if row "words_and_brackets" then -- as C has them
  local on = T("flag", "bool", {})
  mask(function(b, h, i, j)
    local n = 0
    while(n < 3)and(on)do n = n + 1 end
    if(i < j)or not(on)then return(false)
    elseif(i % n == 0)and not(j % n == 0)then return(h == 0)end
    repeat n = n - 1 until(n < 0)or not(on)
    return(n == -1)
  end)
end
if row "flags_of_loops" then -- bool tensors of rank 0 behind "and" and "or"
  local on, off = T("flag", "bool", {}), T("no_flag", "bool", {})
  mask(function(b, h, i, j)
    local n, m = 0, 0
    while n < 4 and off do n = n + 1 end
    while m < 2 and (n > 3 or on) do m = m + 1 end
    repeat m = m + 1 until m > 5 or on
    return i >= j + n and (i - j) % m ~= 1
  end)
end
if row "scalars_of_mods" then -- tensors of rank 0 where facc.mods and facc.lookup take numbers
  local n, w = T("three", "i32", {}), T("near", "f32", { 7 })
  score(mods.compose(mods.relative_bias(w, n), function(s, b, h)
    return s + facc.lookup({ 0.25, -1, 0.5 }, n) * math.tointeger(n) * (math.type(n) == "integer" and h or s)
  end))
  mask(mods.or_masks(mods.dilated(n, 2), mods.longformer(n, n), mods.sinks_window(n, n),
                     mods.natten(30, 22, n), mods.block_diagonal(n)))
end
if row "tables_and_closures" then
  local kinds = { [0] = causal, function(b, h, i, j) return i <= j end, ["any"] = function() return true end }
  local Window = {}
  Window.of = function(self, n) self.n = n return function(...) return self:near(n, ...) end end
  function Window:near(n, b, h, i, j) return math.abs(i - j) < n and self.n == n end
  local near = Window:of(50)
  mask(function(...)
    local b, h, i, j = ...
    if select("#", ...) ~= 4 then return false end
    for k = 0, #kinds do
      if h == k then return kinds[k](...) and (near(...) or j % 5 == 0) end
    end
    return kinds.any()
  end)
end
if row "recursion" then
  local function any(list, k, ...)
    if k > #list then return false end
    return list[k](...) or any(list, k + 1, ...)
  end
  local list = {}
  for k = 1, 6 do list[k] = function(b, h, i, j) return i // 100 == k and j // 50 == 2 * k - 1 end end
  list[7] = causal
  mask(function(...) return any(list, 1, ...) end)
end
if row "equal_booleans" then
  mask(function(b, h, i, j)
    local odd, near = i % 2 == 1, math.abs(i - j) < 70
    return (odd == near) == (j % 3 ~= 0) or (odd ~= false and near == true)
  end)
end
if row "ends_of_integers" then
  mask(function(b, h, i, j)
    return i < math.maxinteger and j > math.mininteger and i - 1 < math.maxinteger >> 1
       and (i >= j or j // math.maxinteger == i // math.mininteger)
       and i % math.maxinteger + 3 > j * 3 % math.mininteger + 2 * j
  end)
end
if row "mixed_comparisons" then
  local f, n = T("shift", "f32", { "B" }), T("count_i16", "i16", { S })
  mask(function(b, h, i, j)
    return i + 0.5 > j and (n[j] ~= f[b] or i == 2.0 * j) and j / 2 ~= 7.5 and n[i] > -99.5
       and i < 1e300 and j > -inf and not (i == 0.5)
  end)
end
if row "floor_forms" then -- of floats and of negative numbers
  score(function(s, b, h, i, j)
    local d = j - i
    return s + d // 7 % 5 / 8 - (d // -3) % -4 / 8 + (-d) // 2.5 % 3 / 16 + (s - 2) // 1 / 4
         + d % 1.25 - (-7 // 2 + -7 % 3) + d // 0x10 * 2 ^ -8
  end)
end
if row "multiple_results" then
  local function both(i, j) return i // 16, j // 16, i % 16 == j % 16 end
  mask(function(b, h, i, j)
    local x, y, same = both(i, j)
    x, y = y, x
    return (x == y or same) and x <= y
  end)
end
if row "strings" then -- names and formats are plain values
  local kind = ("CAUSAL, window=%d"):format(64)
  local n = tonumber(kind:sub(-2)) + #kind - #kind
  local run = { ["causal"] = function(i, j) return i - j < n end }
  mask(function(b, h, i, j) return i >= j and run[kind:sub(1, 6):lower()](i, j) end)
end
if row "expression_nested" then
  T("id", "i32", { S })
  T("off", "i32", { S })
  mask "id[q] == id[kv] and (q - off[id[q]]) // 8 >= (kv - off[id[kv]]) // 8"
end
if row "expression_score" then
  T("slopes", "f32", { "H" })
  P("c", "f32")
  score "(q >= kv and c * facc.tanh((score - slopes[h] * abs(q - kv)) / c)) or -math.huge"
end
if row "expression_functions" then
  score "(function(d) return score - log(1 + d * d) / 2 end)(q - kv)"
  mask "facc.any(2, function(k) return (q >> k) % 3 == (kv >> k) % 3 end) or not (q > kv)"
end

return facc.attention(chosen)
