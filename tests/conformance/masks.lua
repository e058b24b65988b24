local want = "M01"
-- Mask mods of the literature, row by row of the conformance list, each as a
-- user would write it: what it captures, then the mod. The first line chooses
-- one row; tests put the other names there (list.h), and data.h fills tensors
-- and params by their names. Lengths are up to S tokens.
local facc = require "facc"
local S = 2048
local T, P, mods = facc.tensor, facc.param, facc.mods

local chosen = {}
local function row(name) return name == want end
local function mask(f) chosen.mask_mod = f end
local B = 2

local function causal(b, h, i, j) return i >= j end
local function window(b, h, i, j) return i >= j and i - j <= 100 end

-- ---- the list ----------------------------------------------------------------------

if row "M01" then mask(function() return true end) end
if row "M02" then mask(causal) end
if row "M03" then mask(function(b, h, i, j) return i <= j end) end
if row "M04" then mask(function(b, h, i, j) return j <= i + (facc.size.kv - facc.size.q) end) end
if row "M04len" then
  mask(function(b, h, i, j) return j <= i + facc.len.kv(b) - facc.len.q(b) end)
end
if row "M05" then mask(function(b, h, i, j) return i < j end) end
if row "M06" then
  local w = P("w", "i32")
  mask(function(b, h, i, j) return i >= j and i - j <= w end)
end
if row "M07" then
  local wl, wr, off = P("w", "i32"), P("W", "i32"), P("position", "i32")
  mask(function(b, h, i, j) local d = j - (i + off); return -wl <= d and d <= wr end)
end
if row "M08" then
  mask(function(b, h, i, j) local d = math.abs(i - j); return d <= 300 and d % 4 == 0 end)
end
if row "M10" then
  local w, global = P("w", "i32"), T("global", "bool", { S })
  mask(function(b, h, i, j) return math.abs(i - j) <= w or global[i] or global[j] end)
end
if row "M11" then
  local w = P("w", "i32")
  mask(function(b, h, i, j) return i >= j and (i - j <= w or j < 4) end)
end
if row "M12" then mask(function(b, h, i, j) return j < 300 or i >= j end) end
if row "M13" then mask(function(b, h, i, j) return (i < 300 and j < 300) or i >= j end) end
if row "M14" then
  local p = T("prefix", "i32", { "B" })
  mask(function(b, h, i, j) return j <= p[b] or i >= j end)
end
if row "M15" then
  local id = T("id", "i32", { S })
  mask(function(b, h, i, j) return id[i] == id[j] end)
end
if row "M15batch" then
  local id = T("idb", "i16", { "B", S })
  mask(function(b, h, i, j) return id[b][i] == id[b][j] end)
end
if row "M15half" then
  local id = T("idb", "i32", { "B", S })
  mask(function(b, h, i, j) return id(b, i // 2) == id(b, j) end)
end
if row "M16" then
  local id, off = T("id", "i32", { S }), T("off", "i32", { S })
  mask(function(b, h, i, j)
    return id[i] == id[j] and window(b, h, i - off[id[i]], j - off[id[j]])
  end)
end
if row "M16any" then -- as many documents as there are
  local id, off = T("id", "i32", { "any" }), T("off", "i32", { "any" })
  mask(function(b, h, i, j)
    return id[i] == id[j] and i >= j and j - off[id[j]] < 48
  end)
end
if row "M17" then
  local id, off = T("id", "i32", { S }), T("off", "i32", { S })
  mask(function(b, h, i, j) return j >= off[id[i]] and i >= j end)
end
if row "M18" then
  local id, n = T("id", "i32", { 500 }), 500
  mask(function(b, h, i, j)
    return id[facc.clamp(i, 0, n - 1)] == id[facc.clamp(j, 0, n - 1)] and i < n and j < n
  end)
end
if row "M19" then -- answers share their question
  local id, off = T("id", "i32", { S }), T("off", "i32", { S })
  local first_of, end_of = T("first_of", "i32", { S }), T("end_of", "i32", { S })
  local prefix_of = T("prefix_of", "i32", { S })
  mask(function(b, h, i, j)
    local d = id[i]
    local p = prefix_of[d]
    return (j >= off[d] and i >= j) or (d ~= 2 * p and first_of[p] <= j and j < end_of[p])
  end)
end

local function natten(width, kernel)
  return function(b, h, i, j)
    local xi, yi, xj, yj = i // width, i % width, j // width, j % width
    local r, height = kernel // 2, S // width
    return math.abs(facc.clamp(xi, r, height - 1 - r) - xj) <= r
       and math.abs(facc.clamp(yi, r, width - 1 - r) - yj) <= r
  end
end
if row "M21" then mask(natten(32, 13)) end
if row "M21odd" then mask(natten(45, 13)) end
if row "M21wide" then mask(natten(200, 7)) end
if row "M22" then -- an image of 64 x 32 in tiles of 8 x 8
  local function xy(n)
    local t, r = n // 64, n % 64
    return (t // 4) * 8 + r // 8, (t % 4) * 8 + r % 8
  end
  mask(function(b, h, i, j)
    local xi, yi = xy(i)
    local xj, yj = xy(j)
    return math.abs(facc.clamp(xi, 6, 57) - xj) <= 6 and math.abs(facc.clamp(yi, 6, 25) - yj) <= 6
  end)
end
if row "M24" then -- sliding tiles of an image: 32 x 4 tiles of 16 tokens
  mask(function(b, h, i, j)
    local x1, y1, x2, y2 = i // 16 // 4, i // 16 % 4, j // 16 // 4, j // 16 % 4
    return math.abs(facc.clamp(x1, 1, 30) - x2) <= 1 and math.abs(facc.clamp(y1, 1, 2) - y2) <= 1
  end)
end
local function sliding_tiles(n, size) -- 7 x 2 x 2 tiles of a video, then text
  return function(b, h, i, j)
    if i >= n or j >= n then return true end
    local function tile(k) local t = k // size; return t // 4, t // 2 % 2, t % 2 end
    local t1, y1, x1 = tile(i)
    local t2, y2, x2 = tile(j)
    return math.abs(facc.clamp(t1, 1, 5) - t2) <= 1 and math.abs(y1 - y2) <= 0
       and math.abs(x1 - x2) <= 1
  end
end
if row "M24video" then mask(sliding_tiles(1792, 64)) end
if row "M24text" then mask(sliding_tiles(448, 16)) end
if row "M25" then
  local w = P("w", "i32")
  mask(function(b, h, i, j) return i < 100 or j < 100 or math.abs(i - j) < w end)
end
if row "M25frame" then -- the first frame and the prompt are seen by all
  local w, frame = P("w", "i32"), P("W", "i32")
  mask(function(b, h, i, j) return i < 100 or j < 100 + frame or math.abs(i - j) < w end)
end
local function diffusion(n, size, half) -- noised tokens, then clean ones
  return function(b, h, i, j)
    local x0q, x0k = i >= n, j >= n
    local bq, bk = half(i, n, size, x0q), half(j, n, size, x0k)
    local diagonal = bq == bk and x0q == x0k
    local offset = bq > bk and x0k and not x0q
    local blocks = bq >= bk and x0k and x0q
    return diagonal or offset or blocks
  end
end
if row "M27" then
  mask(diffusion(S // 2, 32, function(i, n, size, clean)
    return clean and (i - n) // size or i // size
  end))
end
if row "M27short" then
  mask(diffusion(300, 20, function(i, n, size) return i % n // size end))
end
if row "M27where" then
  mask(function(b, h, i, j)
    local n, size = S // 2, 32
    local x0q, x0k = i >= n, j >= n
    local bq = facc.where(function() return i >= n end, i - n, i) // size
    local bk = facc.where(function() return j >= n end, j - n, j) // size
    return facc.any(3, function(t)
      if t == 0 then return bq == bk and x0q == x0k end
      if t == 1 then return bq > bk and x0k and not x0q end
      return bq >= bk and x0k and x0q
    end)
  end)
end
if row "M28" then
  mask(function(b, h, i, j) return i // 96 == j // 96 and window(b, h, i % 96, j % 96) end)
end
if row "M30" then
  local p, n = 300, 24
  mask(function(b, h, i, j)
    return j < p or (i // n == (j - p) // n and (j - p) % n <= i % n)
  end)
end
if row "M32" then
  local map = T("block_map", "bool", { "B", "H", S // 64, S // 64 })
  mask(function(b, h, i, j) return map(b, h, i // 64, j // 64) end)
end
if row "M33" then
  local size = T("block_size", "i32", { S // 64 })
  mask(function(b, h, i, j) return j % 64 < size[j // 64] end)
end
if row "M34" then mask(function(b, h, i, j) return i // 96 == j // 96 end) end
if row "M35" then mask(function(b, h, i, j) return i % 128 >= j % 128 end) end
if row "M36" then mask(function(b, h, i, j) return i >= j and b % 2 == 0 end) end
if row "M37" then
  local r = T("row_flag", "bool", { S })
  mask(function(b, h, i, j) return r[i] end)
end
if row "M37not" then
  local r = T("batch_flag", "bool", { "B", S })
  mask(function(b, h, i, j) return not r[b][i] end)
end
if row "M37col" then
  local r = T("batch_flag", "bool", { "B", S })
  mask(function(b, h, i, j) return r(b, j) end)
end
if row "M37dense" then
  local r = T("dense", "bool", { "B", 1, "q", "kv" })
  mask(function(b, h, i, j) return r(b, 0, i, j) end)
end
if row "M37scalar" then -- bool tensors of rank 0 are read where they stand
  local on, off = T("flag", "bool", {}), T("no_flag", "bool", {})
  mask(function(b, h, i, j)
    local which = on
    if which and not off then return i >= j or (off and i > 3) end
    return off == on
  end)
end
if row "M38" then mask(function(b, h, i, j) return i < 277 end) end
if row "M39" then mask(function(b, h, i, j) return j < 256 or j >= 500 end) end
if row "M40" then
  local n = T("length", "i32", { "B" })
  mask(function(b, h, i, j) return i < n[b] and j < n[b] end)
end
if row "M40len" then
  mask(function(b, h, i, j) return i < facc.len.q(b) - 3 and j < facc.len.kv(b) - 5 end)
end
if row "M41" then
  local t = T("limit", "i32", { S })
  mask(function(b, h, i, j) return j >= t[j] end)
end
if row "M42" then
  local w, cu = T("token_window", "i32", { 2 * S }), T("start", "i32", { "B" })
  mask(function(b, h, i, j) return j <= i and i - j <= w[cu[b] + i] end)
end
if row "M43" then
  local c, d = T("head_sign", "f16", { "H" }), T("batch_number", "f16", { "B" })
  mask(function(b, h, i, j) return i >= j or c[h] + d[b] > 0 end)
end
if row "M43view" then
  local c = T("view2", "f16", { "H" })
  mask(function(b, h, i, j) return i >= j or c[h] > 0 end)
end
if row "M44" then
  local off = T("shift", "f32", { "B" })
  mask(function(b, h, i, j) return i + 128 * off[b] >= j end)
end
if row "M45" then
  local position = P("position", "i32")
  mask(function(b, h, i, j) return j <= i + position end)
end
local function And(f, g) return function(...) return f(...) and g(...) end end
local function Or(f, g) return function(...) return f(...) or g(...) end end
local function upper(b, h, i, j) return i < j end
if row "M47empty" then mask(And(causal, upper)) end
if row "M47full" then mask(Or(causal, upper)) end
if row "M47three" then
  local id = T("id", "i32", { S })
  local function document(b, h, i, j) return id[i] == id[j] end
  mask(Or(And(And(document, causal), window), function(b, h, i, j) return j < 64 end))
end
if row "M47not" then
  local id = T("id", "i32", { S })
  local function document(b, h, i, j) return id[i] == id[j] end
  mask(function(b, h, i, j) return not (document(b, h, i, j) and window(b, h, i, j)) end)
end
if row "M48" then -- a window through a page table
  local page = T("page", "i32", { B, S // 16 })
  mask(function(b, h, i, j)
    local p = page(b, j // 16)
    return p >= 0 and window(b, h, i, p * 16 + j % 16)
  end)
end
if row "M48causal" then
  local page = T("page", "i32", { B, S // 16 })
  mask(function(b, h, i, j)
    local p = page(b, j // 16)
    return p >= 0 and i >= p * 16 + j % 16
  end)
end
if row "M49" then
  local level = T("level", "i32", { S })
  mask(function(b, h, i, j) return level[i] >= level[j] end)
end
if row "M50" then
  local q0, k0 = P("W", "i32"), P("position", "i64")
  mask(function(b, h, i, j) return i + q0 >= j + k0 end)
end

-- ---- beyond the list ---------------------------------------------------

if row "X01" then -- routing
  local route = T("route", "u8", { S })
  mask(function(b, h, i, j) return route[i] == route[j] and i >= j end)
end
if row "X02" then
  local cluster = T("cluster", "i32", { S })
  mask(function(b, h, i, j) return cluster[i] == cluster[j] end)
end
if row "X03" then
  mask(function(b, h, i, j) return i >= j and (i - j < 32 or (i - j) % 32 == 0) end)
end
if row "X04" then
  mask(function(b, h, i, j) return i >= j and (i // 64 == j // 64 or j % 64 >= 60) end)
end
if row "X05" then -- BigBird's blocks
  mask(function(b, h, i, j)
    local x, y = i // 64, j // 64
    return math.abs(x - y) <= 1 or y == 0 or x == 0 or (x * 7 + 3) % 32 == y
  end)
end
if row "X06" then
  mask(function(b, h, i, j) return ((i * 40503 ~ j * 9973) >> 3) & 15 ~= 0 end)
end
if row "X07" then -- a tree of drafts behind a prompt
  mask(function(b, h, i, j)
    return j < 400 or (i >= j and (i - 400) & (j - 400) == j - 400)
  end)
end
if row "X08" then
  mask(function(b, h, i, j) return (i - 1024) % 4 == (j - 1024 - 4) // 4 % 4 end)
end
if row "X09" then -- frames of a video
  mask(function(b, h, i, j) return i // 150 >= j // 150 and j // 150 >= i // 150 - 2 end)
end
if row "X10" then mask(function(b, h, i, j) return i >= j and i - j < 32 << h end) end
if row "X10list" then -- a window for each head
  local windows = { 16, 64, 100, 1000 }
  mask(function(b, h, i, j) return i >= j and i - j < facc.lookup(windows, h + 1) end)
end
if row "X11" then
  local id, off = T("idb", "i32", { "B", S }), T("offb", "i32", { "B", S })
  mask(function(b, h, i, j)
    return id[b][i] == id[b][j] and (j - off[b][id[b][j]]) % 4 == 0 and i >= j
  end)
end
if row "X12" then
  local id, off = T("id", "i32", { S }), T("off", "i32", { S })
  mask(function(b, h, i, j)
    return id[i] == id[j] and i >= j and (i - j < 128 or j - off[id[j]] < 4)
  end)
end
if row "X13" then mask(function(b, h, i, j) return j % 128 < 8 or i // 128 == j // 128 end) end
if row "X14" then
  mask(function(b, h, i, j) return i // 100 == j // 100 and i % 100 >= j % 100 end)
end
if row "X15" then
  local half = T("half", "bool", { S })
  mask(function(b, h, i, j) return half[i] == half[j] or j == 0 end)
end
if row "X16" then mask(function(b, h, i, j) return (i ~ j) < 64 and i >= j end) end
if row "X17" then
  local unsorted = T("unsorted", "i32", { S })
  mask(function(b, h, i, j) return unsorted[i] == unsorted[j] end)
end
if row "X18" then
  local weight = T("weight", "f16", { S })
  mask(function(b, h, i, j) return weight[i] + weight[j] > 0.5 and i >= j end)
end
if row "X18norms" then -- keys no longer than the query, as vectors
  local u = T("rows", "f16", { S, 24 })
  mask(function(b, h, i, j) return i >= j and facc.dot(u[i], u[i]) >= facc.dot(u[j], u[j]) end)
end
if row "X19" then mask(function(b, h, i, j) return i // 128 - j // 128 <= 1 and i >= j end) end
if row "X20" then
  local w, W = P("w", "i32"), P("W", "i32")
  mask(function(b, h, i, j) return i >= j and (i - j < w or j % (W * 4) < W) end)
end
if row "X21" then
  local id, off, w = T("idb", "i32", { "B", S }), T("offb", "i32", { "B", S }), P("w", "i32")
  mask(function(b, h, i, j)
    local first = off[b][id[b][i]]
    return j >= first and i >= j and (i - j <= w or j < first + 4)
  end)
end
if row "X22" then
  local page = T("page", "i32", { B, S // 16 })
  mask(function(b, h, i, j) return page(b, j // 16) >= 0 end)
end
if row "X23" then mask(function(b, h, i, j) return i // 64 ~= j // 64 and i + 1 >= j end) end
if row "X24" then
  mask(function(b, h, i, j) return i // -8 >= j // -8 and i % -8 - j % -8 > -3 end)
end
if row "X25" then -- causal, and within images; the guard is of the query alone
  local image = T("image", "i32", { "B", S })
  mask(function(b, h, i, j) return i >= j or (image[b][i] == image[b][j] and image[b][i] > 0) end)
end
if row "X26" then
  local image = T("image", "i32", { "B", S })
  mask(function(b, h, i, j) return i >= j and (image[b][i] ~= image[b][j] or image[b][j] == 0) end)
end

-- ---- the standard mods --------------------------------------------------------

if row "causal" then mask(mods.causal) end
if row "causal_bottom_right" then mask(mods.causal_bottom_right) end
if row "sliding_window" then mask(mods.sliding_window(P("w", "i32"))) end
if row "prefix_lm" then mask(mods.prefix_lm(T("prefix", "i32", { "B" }))) end
if row "document" then mask(mods.document(T("idb", "i32", { "B", S }))) end
if row "document_causal" then
  mask(mods.and_masks(mods.causal, mods.document(T("id", "i32", { S }))))
end
if row "dilated" then mask(mods.dilated(64, 3)) end
if row "longformer" then mask(mods.longformer(P("w", "i32"), T("global", "bool", { S }))) end
if row "sinks_window" then mask(mods.sinks_window(4, P("w", "i32"))) end
if row "block_diagonal" then mask(mods.block_diagonal(48)) end
if row "natten" then mask(mods.natten(45, 45, 5)) end
if row "not_mask" then
  mask(mods.not_mask(mods.or_masks(mods.causal, mods.block_diagonal(64))))
end

-- ---- expressions in strings -----------------------------------------------------

if row "expression_window" then
  T("id", "i32", { S })
  P("w", "i32")
  mask "q >= kv and q - kv < w or id[q] ~= id[kv]"
end
if row "expression_any" then mask "facc.any(3, function(k) return (q + k) % 4 == kv % 4 end)" end
if row "expression_lengths" then
  T("three", "i64", {})
  mask "q < facc.len.q(b) and kv < facc.len.kv(b) - three"
end
if row "expression_wide" then mask "1 << (h + 58) > kv and ~q ~= kv << 60" end

return facc.attention(chosen)
