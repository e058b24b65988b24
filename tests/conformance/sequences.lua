local want = "padding_bool"
-- Masks of what the tokens are: padding, documents, modalities, trees, caches,
-- shards, times. Row by row as masks.lua.
local facc = require "facc"
local S = 2048
local T, P = facc.tensor, facc.param

local chosen = {}
local function row(name) return name == want end
local function mask(f) chosen.mask_mod = f end

-- ---- masks: sequences ------------------------------------------------------------------

local function padding(type, keep)
  local pad = T("some", type, { "B", "kv" })
  mask(function(b, h, i, j) return i >= j and keep(pad[b][j]) end)
end
if row "padding_bool" then padding("bool", function(x) return x end) end
if row "padding_not_bool" then padding("bool", function(x) return not x end) end
if row "padding_u8" then padding("u8", function(x) return x == 1 end) end
if row "padding_i64" then padding("i64", function(x) return x ~= 0 end) end
if row "padding_f32" then padding("f32", function(x) return x > 0.5 end) end
if row "padding_bf16" then padding("bf16", function(x) return x == 1.0 end) end
if row "bool_scalar_and_vectors" then
  local on, per_head = T("flag", "bool", {}), T("some", "bool", { "H" })
  local q2, deep = T("some_rows", "bool", { "B", "q" }), T("some_cells", "bool", { 1, "B", "H", "q", "kv" })
  mask(function(b, h, i, j)
    return (on and per_head[h] == q2[b][i]) ~= deep[0](b, h)[i][j] or i == j
  end)
end
if row "packed_window_sinks" then -- documents, a window, the first tokens of each
  local id, off, w = T("id", "i32", { S }), T("off", "i32", { S }), P("w", "i32")
  mask(function(b, h, i, j)
    local d = id[i]
    if d ~= id[j] then return false end
    local x, y = i - off[d], j - off[d]
    return x >= y and (x - y < w // 2 or y < 4)
  end)
end
if row "prefix_of_documents" then -- prefix-LM in each
  local id, off = T("idb", "i32", { "B", S }), T("offb", "i32", { "B", S })
  mask(function(b, h, i, j)
    local d = id(b, i)
    return d == id(b, j) and (i >= j or j - off(b, d) < 10)
  end)
end
if row "chosen_rejected" then -- a prompt (0) and two answers that don't see each other
  local part = T("part", "i32", { "B", S })
  mask(function(b, h, i, j)
    local x, y = part[b][i], part[b][j]
    return i >= j and (y == 0 or x == y)
  end)
end
if row "modalities" then -- Transfusion: spans in both directions
  local span = T("span", "i32", { "B", 4, 2 })
  mask(function(b, h, i, j)
    return i >= j or facc.any(4, function(k)
      local from, to = span(b, k, 0), span(b, k, 1)
      return from <= i and i < to and from <= j and j < to
    end)
  end)
end
if row "flamingo" then -- text sees the last image before it
  local image = T("image_before", "i32", { "B", "q" })
  mask(function(b, h, i, j) return image(b, i) > 0 and image(b, i) - 1 == j // 64 end)
end
if row "gist" then -- behind the gist tokens what is before them is hidden
  local at, n = T("prefix", "i32", { "B" }), 4
  mask(function(b, h, i, j)
    if j > i then return false end
    if i < at[b] + n then return true end
    return j >= at[b]
  end)
end
if row "landmarks" then -- the last token of each block, or the own block
  mask(function(b, h, i, j)
    return i >= j and (i // 50 == j // 50 or j % 50 == 49) and not (i == j and i % 50 == 49)
  end)
end
if row "xlnet" then -- an order of its own; content and query streams
  local order = T("order", "i32", { S })
  mask(function(b, h, i, j)
    if h % 2 == 0 then return order[i] >= order[j] end
    return order[i] > order[j] or order[j] == 0
  end)
end
if row "tree_of_parents" then -- as many steps up as the tree is deep
  local parent = T("parent", "i32", { S })
  mask(function(b, h, i, j)
    local n = i
    for _ = 1, 5 do
      if n == j then return true end
      n = facc.max(parent[facc.max(n, 0)], 0)
    end
    return n == j
  end)
end
if row "tree_of_ancestors" then
  local ancestor = T("ancestor", "i32", { S, 11 })
  mask(function(b, h, i, j)
    return i == j or facc.any(11, function(k) return ancestor[i][k] == j end)
  end)
end
if row "medusa" then -- a table of 64 drafts, which stand at the end
  local tree = T("tree", "bool", { 64, 64 })
  mask(function(b, h, i, j)
    local first = facc.len.kv(b) - 64
    if j < first then return true end
    return tree[i % 64][facc.min(j - first, 63)]
  end)
end
if row "rolling_cache" then -- the place of a key in a cache of 256 that goes round
  local at = P("position", "i32")
  mask(function(b, h, i, j)
    local age = (at - j) % 256
    return j < 256 and age <= at and age < 200
  end)
end
if row "zigzag" then -- context parallel: each rank has one chunk of both ends
  local rank, n, size = 1, 4, 80
  mask(function(b, h, i, j)
    local function place(t, r)
      return t < size and r * size + t or (2 * n - 1 - r) * size + t - size
    end
    return place(i, rank) >= place(j % 160, j // 160)
  end)
end
if row "striped" then
  local n, mine, theirs = 4, 1, 3
  mask(function(b, h, i, j) return i * n + mine >= j * n + theirs end)
end
if row "seconds" then -- events within four seconds, some at one time
  local t = T("seconds", "f32", { "B", S })
  mask(function(b, h, i, j)
    local dt = t[b][i] - t[b][j]
    return dt >= 0 and dt < 4.0 or i == j
  end)
end
if row "milliseconds" then
  local t = T("time", "i64", { "B", S })
  mask(function(b, h, i, j) return t[b][j] <= t[b][i] and t[b][i] - t[b][j] < 1 << 17 end)
end
if row "strict_future_and_self" then
  mask(function(b, h, i, j) return j > i + 2 or j == i or not (j ~= i + 1) end)
end
if row "position_ids" then -- documents by positions that begin again at 0
  local at = T("place", "i64", { "B", S })
  mask(function(b, h, i, j) return i >= j and i - at[b][i] == j - at[b][j] end)
end
if row "segments_counted" then -- by the boundaries before a token
  local first = T("csr_first", "i32", { 33 })
  local function segment(t) return facc.sum(32, function(k) return t >= first[k + 1] * 10 and 1 or 0 end) end
  mask(function(b, h, i, j) return segment(i) == segment(j) end)
end
if row "segments_bisected" then
  local first = T("csr_first", "i32", { 33 })
  local function segment(t)
    local low, high = 0, 32
    for _ = 1, 5 do
      local middle = (low + high) // 2
      local function right() return first[middle] * 10 <= t end
      low, high = facc.where(right, middle, low), facc.where(right, high, middle)
    end
    return low
  end
  mask(function(b, h, i, j) return i >= j and segment(i) == segment(j) end)
end
if row "tree_bytes" then -- bits of 64 drafts behind a prompt, eight in a byte
  local tree = T("below256", "u8", { 64, 8 })
  mask(function(b, h, i, j)
    local past = facc.len.kv(b) - 64
    if j < past then return true end
    local bit = facc.min(j - past, 63)
    return tree[i % 64][bit // 8] >> bit % 8 & 1 == 1
  end)
end
if row "lookahead_decoding" then -- columns of n-grams behind a prompt
  local past, columns = 200, 20
  mask(function(b, h, i, j)
    if j < past then return true end
    local k = j - past
    local own = k % columns == i % columns and k // columns <= i // columns
    return k // columns == 0 and k % columns <= i % columns or i >= columns and own
  end)
end
if row "prefill_window_or_none" then -- a window that a param may turn off, and sinks
  local done, w, sinks = T("pad_left", "i32", { "B" }), P("w", "i32"), P("W", "i32")
  mask(function(b, h, i, j)
    local at = i + done[b]
    return j <= at and (w <= 0 or at - j < w or j < sinks)
  end)
end
if row "memory_ends" then -- Recurrent Memory Transformer: tokens that read and that write
  local M = 16
  mask(function(b, h, i, j)
    local n = facc.len.q(b)
    local reads, writes = { i < M, j < M }, { i >= n - M, j >= n - M }
    if writes[1] or reads[2] then return true end
    return not reads[1] and not writes[2] and j <= i
  end)
end
if row "regional_prompts" then -- text of four regions, then an image
  local region, part = T("some_pixels", "bool", { 4, S }), T("below4", "u8", { 64 })
  local n = 64
  mask(function(b, h, i, j)
    local text, key = i < n, j < n
    if text and key then return part[i] == part[j] end
    if text then return region[part[i]][j - n] end
    return not key or region[part[j]][i - n]
  end)
end
if row "kinds_bits" then -- which kinds a kind of token sees, as bits
  local kind, sees = T("part", "i32", { "B", S }), T("below8", "u8", { 3 })
  mask(function(b, h, i, j) return sees[kind[b][i]] & 1 << kind[b][j] ~= 0 end)
end

return facc.attention(chosen)
