local want = "M02"
-- The masks of the list, of S = 2,048 tokens, for tests of verdicts: each as a
-- user would write it (mods.lua has the same rows for 256 tokens, for tests of
-- values). The first line chooses one; tests put the other names there.
-- Lengths may be shorter than S; tests/unit/verdict_data.h fills the tensors
-- (documents, windows, page tables, …) by their names.
local facc = require "facc"
local B, H, S = 2, 4, 2048
local inf = math.huge
local T, P = facc.tensor, facc.param

local chosen = {}
-- score: the part of a score_mod that is a mask.
local function score(name, f) if name == want then chosen.score_mod = f end end
local function mask(name, f) if name == want then chosen.mask_mod = f end end

-- ---- captured data ----------------------------------------------------------

local W, w, position = P("W", "i32"), P("w", "i32"), P("position", "i32")
local id, off = T("id", "i32", { S }), T("off", "i32", { S })
local idb, offb = T("idb", "i32", { B, S }), T("offb", "i32", { B, S })
local unsorted = T("unsorted", "i32", { S })
local segment, half = T("segment", "bool", { S }), T("half", "bool", { S })
local prefix, start = T("prefix", "i32", { B }), T("start", "i32", { B })
local length, shift = T("length", "i32", { B }), T("shift", "f32", { B })
local page = T("page", "i32", { B, S // 16 })
local global = T("global", "bool", { S })
local limit, level = T("limit", "i32", { S }), T("level", "i32", { S })
local block_map = T("block_map", "bool", { B, H, S // 64, S // 64 })
local block_size = T("block_size", "i32", { S // 64 })
local row_flag, col_flag = T("row_flag", "bool", { S }), T("col_flag", "bool", { B, S })
local dense = T("dense", "bool", { B, 1, S, S })
local head_sign, batch_number = T("head_sign", "f32", { H }), T("batch_number", "f32", { B })
local token_window = T("token_window", "i32", { 2 * S })
local first_of, end_of = T("first_of", "i32", { 16 }), T("end_of", "i32", { 16 })
local prefix_of = T("prefix_of", "i32", { S })
local route, cluster = T("route", "u8", { S }), T("cluster", "i32", { S })
local rel = T("rel", "f32", { 2 * S })
local weight = T("weight", "f16", { S })

local function causal(b, h, q, kv) return q >= kv end
local function window(b, h, q, kv) return q >= kv and q - kv <= 100 end

-- ---- masks in scores --------------------------------------------------------

score("S04", function(s, b, h, i, j) return i >= j and s or -inf end)
score("S05", function(s, b, h, i, j) if i <= j then return s end return -inf end)
score("S09", function(s, b, h, i, j) if i < j then return -inf end return s + (i - j) end)
score("S33", function(s, b, h, i, j) return j % 2 == 0 and s or -inf end)
score("S35", function(s, b, h, i, j) return segment[i] == segment[j] and s or -inf end)
score("S36", function(s, b, h, i, j) return i >= j and id[i] == id[j] and s or -inf end)
score("S37", function(s, b, h, i, j)
  return ((i <= prefix[b] and j <= prefix[b]) or i >= j) and s or -inf
end)
score("S38", function(s, b, h, i, j)
  return (math.abs(i / 32 - j / 32) <= 3 or math.abs(i % 32 - j % 32) <= 3) and s or -inf
end)
score("S42", function(s, b, h, i, j)
  return s <= prefix[b] and i >= j and 2 * s or -inf
end)
score("S43", function(s, b, h, i, j)
  return i - off[id[i]] >= j - off[id[j]] and s or -inf
end)
score("S58", function(s, b, h, i, j)
  local gi, gj = start[b] + i, start[b] + j
  if i >= j and math.abs(gi - gj) <= 512 then return s + rel[gj] end
  return -inf
end)
score("S63", function(s, b, h, i, j) -- logical position through a page table
  local p = page(b, j // 16)
  local logical = p * 16 + j % 16
  if p >= 0 and i >= logical then return s + rel[i - logical + S] end
  return -inf
end)

-- ---- masks ------------------------------------------------------------------

mask("M01", function() return true end)
mask("M02", causal)
mask("M03", function(b, h, i, j) return i <= j end)
mask("M04", function(b, h, i, j) return j <= i + (facc.size.kv - facc.size.q) end)
mask("M05", function(b, h, i, j) return i < j end)
mask("M06", function(b, h, i, j) return i >= j and i - j <= w end)
mask("M07", function(b, h, i, j) local d = j - (i + W); return -w <= d and d <= 50 end)
mask("M08", function(b, h, i, j) local d = math.abs(i - j); return d <= 300 and d % 4 == 0 end)
mask("M10", function(b, h, i, j) return math.abs(i - j) <= w or global[i] or global[j] end)
mask("M11", function(b, h, i, j) return i >= j and (i - j <= w or j < 4) end)
mask("M12", function(b, h, i, j) return j < 300 or i >= j end)
mask("M13", function(b, h, i, j) return (i < 300 and j < 300) or i >= j end)
mask("M14", function(b, h, i, j) return j <= prefix[b] or i >= j end)
mask("M15", function(b, h, i, j) return id[i] == id[j] end)
mask("M15b", function(b, h, i, j) return idb[b][i] == idb[b][j] end)
mask("M15c", function(b, h, i, j) return idb(b, i // 2) == idb(b, j) end)
mask("M16", function(b, h, i, j)
  return id[i] == id[j] and window(b, h, i - off[id[i]], j - off[id[j]])
end)
mask("M17", function(b, h, i, j) return j >= off[id[i]] and i >= j end)
mask("M18", function(b, h, i, j)
  local n = 1900
  return id[facc.clamp(i, 0, n - 1)] == id[facc.clamp(j, 0, n - 1)] and i < n and j < n
end)
mask("M19", function(b, h, i, j) -- answers share their question
  local d = id[i]
  local p = prefix_of[d]
  return (j >= off[d] and i >= j) or (d ~= 2 * p and first_of[p] <= j and j < end_of[p])
end)
local function natten(width, kernel)
  return function(b, h, i, j)
    local xi, yi, xj, yj = i // width, i % width, j // width, j % width
    local r, height = kernel // 2, S // width
    return math.abs(facc.clamp(xi, r, height - 1 - r) - xj) <= r
       and math.abs(facc.clamp(yi, r, width - 1 - r) - yj) <= r
  end
end
mask("M21_32", natten(32, 13))
mask("M21_45", natten(45, 13))
mask("M21_200", natten(200, 7))
mask("M22", function(b, h, i, j) -- an image in tiles of 8 x 8
  local function xy(n)
    local t, r = n // 64, n % 64
    return (t // 4) * 8 + r // 8, (t % 4) * 8 + r % 8
  end
  local xi, yi = xy(i)
  local xj, yj = xy(j)
  return math.abs(facc.clamp(xi, 6, 57) - xj) <= 6 and math.abs(facc.clamp(yi, 6, 25) - yj) <= 6
end)
mask("M24", function(b, h, i, j) -- video: 7 x 2 x 2 tiles of 64 tokens, then text
  local n = 1792
  if i >= n then return true end
  if j >= n then return true end
  local function tile(k) local t = k // 64; return t // 4, t // 2 % 2, t % 2 end
  local t1, y1, x1 = tile(i)
  local t2, y2, x2 = tile(j)
  return math.abs(facc.clamp(t1, 1, 5) - t2) <= 1 and math.abs(y1 - y2) <= 0
     and math.abs(x1 - x2) <= 1
end)
mask("M25", function(b, h, i, j) return i < 100 or j < 100 or math.abs(i - j) < w end)
mask("M27", function(b, h, i, j) -- block diffusion
  local n, size = S // 2, 32
  local x0q, x0k = i >= n, j >= n
  local bq = x0q and (i - n) // size or i // size
  local bk = x0k and (j - n) // size or j // size
  local diagonal = bq == bk and x0q == x0k
  local offset = bq > bk and x0k and not x0q
  local blocks = bq >= bk and x0k and x0q
  return diagonal or offset or blocks
end)
mask("M27where", function(b, h, i, j)
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
mask("M28", function(b, h, i, j) return i // 96 == j // 96 and window(b, h, i % 96, j % 96) end)
mask("M30", function(b, h, i, j)
  local p, n = 500, 24
  return j < p or (i // n == (j - p) // n and (j - p) % n <= i % n)
end)
mask("M32", function(b, h, i, j) return block_map(b, h, i // 64, j // 64) end)
mask("M33", function(b, h, i, j) return j % 64 < block_size[j // 64] end)
mask("M34", function(b, h, i, j) return i // 96 == j // 96 end)
mask("M35", function(b, h, i, j) return i % 128 >= j % 128 end)
mask("M36", function(b, h, i, j) return i >= j and b % 2 == 0 end)
mask("M37a", function(b, h, i, j) return row_flag[i] end)
mask("M37b", function(b, h, i, j) return not col_flag[b][i] end)
mask("M37c", function(b, h, i, j) return col_flag[b][j] end)
mask("M37d", function(b, h, i, j) return dense(b, 0, i, j) end)
mask("M38", function(b, h, i, j) return i < 777 end)
mask("M39", function(b, h, i, j) return j < 256 or j >= 1500 end)
mask("M40", function(b, h, i, j) return i < length[b] and j < length[b] end)
mask("M40len", function(b, h, i, j) return i < facc.len.q(b) - 3 and j < facc.len.kv(b) - 5 end)
mask("M41", function(b, h, i, j) return j >= limit[j] end)
mask("M42", function(b, h, i, j) return j <= i and i - j <= token_window[start[b] + i] end)
mask("M43", function(b, h, i, j) return i >= j or head_sign[h] + batch_number[b] > 0 end)
mask("M44", function(b, h, i, j) return i + 128 * shift[b] >= j end)
mask("M45", function(b, h, i, j) return j <= i + position end)
local function And(f, g) return function(...) return f(...) and g(...) end end
local function Or(f, g) return function(...) return f(...) or g(...) end end
local function upper(b, h, i, j) return i < j end
local function document(b, h, i, j) return id[i] == id[j] end
mask("M47empty", And(causal, upper))
mask("M47full", Or(causal, upper))
mask("M47doc_window_prefix", Or(And(And(document, causal), window),
  function(b, h, i, j) return j < 64 end))
mask("M47not", function(b, h, i, j) return not (document(b, h, i, j) and window(b, h, i, j)) end)
mask("M48", function(b, h, i, j) -- a window through a page table
  local p = page(b, j // 16)
  return p >= 0 and window(b, h, i, p * 16 + j % 16)
end)
mask("M48causal", function(b, h, i, j)
  local p = page(b, j // 16)
  return p >= 0 and i >= p * 16 + j % 16
end)
mask("M49", function(b, h, i, j) return level[i] >= level[j] end)
mask("M50", function(b, h, i, j) return i + W >= j + w end)

-- ---- beyond the list: more of the same kinds -------------------------------

mask("X01 routing", function(b, h, i, j) return route[i] == route[j] and i >= j end)
mask("X02 clusters", function(b, h, i, j) return cluster[i] == cluster[j] end)
mask("X03 strided", function(b, h, i, j) return i >= j and (i - j < 32 or (i - j) % 32 == 0) end)
mask("X04 fixed sparse", function(b, h, i, j)
  return i >= j and (i // 64 == j // 64 or j % 64 >= 60)
end)
mask("X05 bigbird", function(b, h, i, j)
  local x, y = i // 64, j // 64
  return math.abs(x - y) <= 1 or y == 0 or x == 0 or (x * 7 + 3) % 32 == y
end)
mask("X06 hash", function(b, h, i, j) return ((i * 40503 ~ j * 9973) >> 3) & 15 ~= 0 end)
mask("X07 tree", function(b, h, i, j)
  return j < 1000 or (i >= j and (i - 1000) & (j - 1000) == j - 1000)
end)
mask("X08 negative", function(b, h, i, j) return (i - 1024) % 4 == (j - 1024 - 4) // 4 % 4 end)
mask("X09 frames", function(b, h, i, j) return i // 150 >= j // 150 and j // 150 >= i // 150 - 2 end)
mask("X10 head window", function(b, h, i, j) return i >= j and i - j < 32 << h end)
mask("X11 document tail", function(b, h, i, j)
  return idb[b][i] == idb[b][j] and (j - offb[b][idb[b][j]]) % 4 == 0 and i >= j
end)
mask("X12 document sink", function(b, h, i, j)
  return id[i] == id[j] and i >= j and (i - j < 128 or j - off[id[j]] < 4)
end)
mask("X13 arrow", function(b, h, i, j) return j % 128 < 8 or i // 128 == j // 128 end)
mask("X14 batched causal", function(b, h, i, j)
  return i // 100 == j // 100 and i % 100 >= j % 100
end)
mask("X15 halves", function(b, h, i, j) return half[i] == half[j] or j == 0 end)
mask("X16 xor", function(b, h, i, j) return (i ~ j) < 64 and i >= j end)
mask("X17 unsorted", function(b, h, i, j) return unsorted[i] == unsorted[j] end)
mask("X18 weight", function(b, h, i, j) return weight[i] + weight[j] > 0.5 and i >= j end)
mask("X19 chunked", function(b, h, i, j) return i // 128 - j // 128 <= 1 and i >= j end)
mask("X20 two params", function(b, h, i, j) return i >= j and (i - j < w or j % (W * 4) < W) end)
mask("X21 documents of b", function(b, h, i, j)
  local first = offb[b][idb[b][i]]
  return j >= first and i >= j and (i - j <= w or j < first + 4)
end)
mask("X22 pages, no window", function(b, h, i, j) return page(b, j // 16) >= 0 end)
mask("X23 off by one", function(b, h, i, j) return i // 64 ~= j // 64 and i + 1 >= j end)
mask("X24 negative divisor", function(b, h, i, j) return i // -8 >= j // -8 and i % -8 - j % -8 > -3 end)

-- ---- the standard mods --------------------------------------------------------

local mods = facc.mods
mask("causal", mods.causal)
mask("causal_bottom_right", mods.causal_bottom_right)
mask("sliding_window", mods.sliding_window(w))
mask("prefix_lm", mods.prefix_lm(prefix))
mask("document", mods.document(idb))
mask("document_causal", mods.and_masks(mods.causal, mods.document(id)))
mask("dilated", mods.dilated(64, 3))
mask("longformer", mods.longformer(w, global))
mask("sinks_window", mods.sinks_window(4, w))
mask("block_diagonal", mods.block_diagonal(48))
mask("natten", mods.natten(45, 45, 5))
mask("not_mask", mods.not_mask(mods.or_masks(mods.causal, mods.block_diagonal(64))))

return facc.attention(chosen)
