local want = "S01"
-- Score and mask mods of the literature, each as a user would write it. The
-- first line chooses one; tests put the other names there. Sizes that are
-- constants here: B = 2, H = 4, Hkv = 2, S = 256 tokens.
local facc = require "facc"
local B, H, HKV, S = 2, 4, 2, 256
local inf = math.huge
local T, P = facc.tensor, facc.param

local chosen = {}
local function score(name, f) if name == want then chosen.score_mod = f end end
local function mask(name, f) if name == want then chosen.mask_mod = f end end

-- ---- captured data ----------------------------------------------------------

local batch, heads = P("batch", "i32"), P("heads", "i32")
local W, w, c = P("W", "i32"), P("w", "i32"), P("c", "f32")
local slopes = T("slopes", "f32", { "H" })
local per_batch = T("per_batch", "f32", { "B" })
local per_head = T("per_head", "f32", { "B", "H" })
local row, col = T("row", "f32", { "q" }), T("col", "f32", { 2 * S })
local B2 = T("B2", "f32", { "q", "kv" })
local B3b = T("B3b", "f16", { "B", "q", "kv" })
local B3h = T("B3h", "bf16", { "H", "kv", "q" })
local B4 = T("B4", "f32", { "B", "H", "q", "kv" })
local rel = T("rel", "f32", { 8 * S })
local win = T("win", "f32", { 201 })
local t5 = T("t5", "f32", { 32, "H" })
local three, factor = T("three", "i64", {}), T("factor", "f32", {})
local id, idb = T("id", "i32", { 2 * S }), T("idb", "i16", { "B", 2 * S })
local off = T("off", "i32", { S })
local segment = T("segment", "bool", { "kv" })
local prefix = T("prefix", "i32", { "B" })
local dist = T("dist", "u8", { "B", "q", "kv" })
local spatial = T("spatial", "f32", { "H", 8 })
local edge = T("edge", "i8", { "B", "q", "kv", 4 })
local edge_bias = T("edge_bias", "f32", { 4, "H", 8 })
local q_rope = T("q_rope", "f8", { "B", "H", "q", 16 })
local k_rope = T("k_rope", "e5m2", { "B", "Hkv", "kv", 16 })
local q_scale, k_scale = T("q_scale", "f32", { "B", "H" }), T("k_scale", "f32", { "B", "Hkv" })
local start, length = T("start", "i32", { "B" }), T("length", "i32", { "B" })
local page = T("page", "i32", { "B", S // 16 })
local global = T("global", "bool", { "kv" })
local limit, level = T("limit", "i32", { "kv" }), T("level", "i32", { "kv" })
local block_map = T("block_map", "bool", { "B", "H", S // 64, S // 64 })
local block_size = T("block_size", "i32", { S // 64 })
local row_flag, col_flag = T("row_flag", "bool", { "q" }), T("col_flag", "bool", { "B", "kv" })
local dense = T("dense", "bool", { "B", 1, "q", "kv" })
local head_sign, batch_number = T("head_sign", "f32", { "H" }), T("batch_number", "f32", { "B" })
local shift = T("shift", "f32", { "B" })
local token_window = T("token_window", "i32", { 2 * S })
local first_of, end_of = T("first_of", "i32", { 8 }), T("end_of", "i32", { 8 })
local prefix_of = T("prefix_of", "i32", { 8 })
local half = T("half", "bool", { "kv" })

local function causal(b, h, q, kv) return q >= kv end
local function window(b, h, q, kv) return q >= kv and q - kv <= 100 end

-- ---- scores -------------------------------------------------------------------

score("S01", function(s) return s end)
score("S02", function(s) return 2 * s end)
score("S03", function(s) return s ^ 2 end)
score("S04", function(s, b, h, i, j) return i >= j and s or -inf end)
score("S05", function(s, b, h, i, j) if i <= j then return s end return -inf end)
score("S06", function(s, b, h, i, j) return s + (i - j) end)
score("S07", function(s, b, h, i, j) return s + 2 * math.abs(i - j) end)
score("S08", function(s, b, h, i, j) return s + math.min(math.abs(i - j), w) end)
score("S09", function(s, b, h, i, j) if i < j then return -inf end return s + (i - j) end)
score("S10", function(s, b, h, i, j) return s + (j - i) * 2 ^ (-8 * (h + 1) / H) end)
score("S11", function(s, b, h, i, j) return s + slopes[h] * (j - i) end)
score("S12", function(s, b, h, i, j) return s - 2 ^ (-8 * (h + 1) / H) * math.abs(i - j) end)
score("S13", function(s, b, h, i, j) return s * slopes[h] end)
score("S14", function(s, b, h, i, j) return s + 0.1 * h end)
score("S15", function(s, b, h, i, j) return s + per_batch[b] end)
score("S16", function(s, b, h, i, j) return s + per_head[b][h] end)
score("S17", function(s, b, h, i, j) return s + row[i] + per_batch[b] + slopes[h] end)
score("S18", function(s, b, h, i, j) return s + slopes[h] + (row[i] - col[j]) + per_batch[b] end)
score("S19", function(s, b, h, i, j) return s + B4(b, h, i, j) + B2[i][j] end)
score("S20", function(s, b, h, i, j) return s + B3h(h, j, i) end)
score("S21", function(s, b, h, i, j) return s + rel[i - j + S] end)
score("S22", function(s, b, h, i, j) return s + win[facc.clamp(i - j + 100, 0, 200)] end)
score("S23", function(s, b, h, i, j) return s + rel[math.abs(i - j)] end)
score("S25", function(s, b, h, i, j) return (s + col[j]) * row[i] end)
score("S26", function(s, b, h, i, j) return s + col[i] + col[j] end)
score("S27", function(s, b, h, i, j) return s + row[off[i]] end)
score("S28", function(s, b, h, i, j) return s + B3b[b][i][three] + B4[0](b, h, i) end)
score("S30", function(s, b, h, i, j) return s + B4(b, h, i, j // W) end)
score("S31", function(s, b, h, i, j) return s * factor + three end)
score("S32", function(s, b, h, i, j) return s + batch end)
score("S33", function(s, b, h, i, j) return j % 2 == 0 and s or -inf end)
score("S34", function(s, b, h, i, j)
  local x = s + rel[i - j + S]
  if causal(b, h, i, j) then return x else return -inf end
end)
score("S35", function(s, b, h, i, j) return segment[i] == segment[j] and s or -inf end)
score("S36", function(s, b, h, i, j) return i >= j and id[i] == id[j] and s or -inf end)
score("S37", function(s, b, h, i, j)
  return ((i <= prefix[b] and j <= prefix[b]) or i >= j) and s or -inf
end)
score("S38", function(s, b, h, i, j)
  return (math.abs(i / 32 - j / 32) <= 3 or math.abs(i % 32 - j % 32) <= 3) and s or -inf
end)
score("S40", function(s) return s * facc.sigmoid(s) end)
score("S41", function(s, b) return math.sin(math.cos(s)) + math.tan(b) end)
score("S42", function(s, b, h, i, j) if s <= prefix[b] then return 2 * s end return -inf end)
score("S43", function(s, b, h, i, j)
  return i - off[id[i]] >= j - off[id[j]] and s or -inf
end)
score("S45", function(s) return s + math.log(factor) end)
score("S46", function(s) return c * math.tanh(s / c) end)
score("S46fast", function(s) return c * facc.tanh_fast(s / c) end)
score("S47", function(s, b, h, i, j) return s / (1 + 1e-4 * (i - j) ^ 2) end)
score("S48", function(s, b, h, i, j) return math.abs(i - j) <= 8 and 2 * s or s end)
score("S50", function(s, b, h, i, j) return s + spatial(h, dist(b, i, j) % 8) end)
score("S51", function(s, b, h, i, j) -- Graphormer's edges
  local n = dist(b, i, j) % 5
  return s + facc.sum(4, function(k)
    return n > k and edge_bias(k, h, edge(b, i, j, k) % 8) or 0.0
  end) / math.max(n, 1)
end)
score("S51loop", function(s, b, h, i, j)
  local n, sum = dist(b, i, j) % 5, 0.0
  for k = 0, 3 do
    if n > k then sum = sum + edge_bias(k, h, edge(b, i, j, k) % 8) end
  end
  return s + sum / math.max(n, 1)
end)
score("S52", function(s, b, h, i, j) -- MLA's rotary part
  local sum = 0.0
  for d = 0, 15 do sum = sum + q_rope(b, h, i, d) * k_rope(b, h // (H // HKV), j, d) end
  return s + 0.125 * sum
end)
score("S53", function(s, b, h, i, j) return s + rel[i - j + S] * (heads / (8 * (h + 1))) end)
score("S54", function(s, b, h, i, j) return s * q_scale(b, h) * k_scale(b, h // (H // HKV)) end)
score("S55", function(s, b, h, i, j)
  return s + col[start[b] + math.min(j, length[b] - 1)] + col[start[b] + i]
end)
score("S57", function(s, b, h, i, j)
  return s + 1e-3 * math.abs(i - j) + col[start[b] + i] * (b + 1) * (h + 1) * 1e-3
end)
score("S58", function(s, b, h, i, j)
  local gi, gj = start[b] + i, start[b] + j
  if i >= j and math.abs(gi - gj) <= 512 then return s + col[gj] end
  return -inf
end)
score("S60", function(s, b, h) return per_head(b, h) * s ^ 2 end)
score("S63", function(s, b, h, i, j) -- logical position through a page table
  local p = page(b, j // 16)
  local logical = p * 16 + j % 16
  if p >= 0 and i >= logical then return s + rel[i - logical + S] end
  return -inf
end)
local function bucket(r)
  local n, side = -r, 0
  if n < 0 then side, n = 16, -n end
  if n < 8 then return side + n end
  return side + math.min(8 + math.floor(math.log(n / 8) / math.log(16) * 8), 15)
end
score("T5", function(s, b, h, i, j) return s + t5(bucket(j - i), h) end)
score("gelu", function(s) return facc.gelu(s) end)
score("gelu_tanh", function(s) return facc.gelu_tanh(s) end)
score("relu", function(s) return facc.relu(s) end)
score("squared_relu", function(s) return math.max(s, 0.0) ^ 2 end)

-- ---- masks ----------------------------------------------------------------------

mask("M01", function() return true end)
mask("M02", causal)
mask("M03", function(b, h, i, j) return i <= j end)
mask("M04", function(b, h, i, j) return j <= i + W end)
mask("M05", function(b, h, i, j) return i < j end)
mask("M06", function(b, h, i, j) return i >= j and i - j <= w end)
mask("M07", function(b, h, i, j) local d = j - (i + W); return -w <= d and d <= 50 end)
mask("M08", function(b, h, i, j) local d = math.abs(i - j); return d <= 300 and d % 4 == 0 end)
mask("M10", function(b, h, i, j) return math.abs(i - j) <= w or global[i] or global[j] end)
mask("M11", function(b, h, i, j) return i >= j and (i - j <= w or j < 4) end)
mask("M12", function(b, h, i, j) return j < 100 or i >= j end)
mask("M13", function(b, h, i, j) return (i < 100 and j < 100) or i >= j end)
mask("M14", function(b, h, i, j) return j <= prefix[b] or i >= j end)
mask("M15", function(b, h, i, j) return id[i] == id[j] end)
mask("M15b", function(b, h, i, j) return idb[b][i] == idb[b][j] end)
mask("M15c", function(b, h, i, j) return idb(b, i // 2) == idb(b, j) end)
mask("M16", function(b, h, i, j)
  return id[i] == id[j] and window(b, h, i - off[id[i]], j - off[id[j]])
end)
mask("M17", function(b, h, i, j) return j >= off[id[i]] and i >= j end)
mask("M18", function(b, h, i, j)
  local n = 200
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
mask("M21_16", natten(16, 7))
mask("M21_45", natten(45, 3))
mask("M21_60", natten(60, 3))
mask("M22", function(b, h, i, j) -- an image in tiles of 8 x 8
  local function xy(n)
    local t, r = n // 64, n % 64
    return (t // 2) * 8 + r // 8, (t % 2) * 8 + r % 8
  end
  local xi, yi = xy(i)
  local xj, yj = xy(j)
  return math.abs(facc.clamp(xi, 6, 9) - xj) <= 6 and math.abs(facc.clamp(yi, 6, 9) - yj) <= 6
end)
mask("M24", function(b, h, i, j) -- video tiles of 8 tokens, then text
  local n = 224
  if i >= n then return true end
  if j >= n then return true end
  local function tile(k) local t = k // 8; return t // 4, t // 2 % 2, t % 2 end
  local t1, y1, x1 = tile(i)
  local t2, y2, x2 = tile(j)
  return math.abs(facc.clamp(t1, 1, 5) - t2) <= 1 and math.abs(y1 - y2) <= 0
     and math.abs(x1 - x2) <= 1
end)
mask("M25", function(b, h, i, j) return i < 50 or j < 50 or math.abs(i - j) < w end)
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
  local p, n = 100, 24
  return j < p or (i // n == (j - p) // n and (j - p) % n <= i % n)
end)
mask("M32", function(b, h, i, j) return block_map(b, h, i // 64, j // 64) end)
mask("M33", function(b, h, i, j) return j % 64 < block_size[j // 64] end)
mask("M34", function(b, h, i, j) return i // 96 == j // 96 end)
mask("M35", function(b, h, i, j) return i % 128 >= j % 128 end)
mask("M36", function(b, h, i, j) return i >= j and b % 2 == 0 end)
mask("M37a", function(b, h, i, j) return row_flag[i] end)
mask("M37b", function(b, h, i, j) return not col_flag[b][i] and col_flag[b][j] end)
mask("M37c", function(b, h, i, j) return dense(b, 0, i, j) end)
mask("M38", function(b, h, i, j) return i < 77 end)
mask("M39", function(b, h, i, j) return j < 56 or j >= 150 end)
mask("M40", function(b, h, i, j) return i < length[b] and j < length[b] end)
mask("M41", function(b, h, i, j) return j >= limit[j] end)
mask("M42", function(b, h, i, j) return j <= i and i - j <= token_window[start[b] + i] end)
mask("M43", function(b, h, i, j) return i >= j or head_sign[h] + batch_number[b] > 0 end)
mask("M44", function(b, h, i, j) return i + 128 * shift[b] >= j end)
mask("M45", function(b, h, i, j) return j <= i + batch end)
local function And(f, g) return function(...) return f(...) and g(...) end end
local function Or(f, g) return function(...) return f(...) or g(...) end end
local function upper(b, h, i, j) return i < j end
mask("M47empty", And(causal, upper))
mask("M47full", Or(causal, upper))
mask("M47doc_window_prefix", Or(And(And(function(b, h, i, j) return id[i] == id[j] end, causal),
  window), function(b, h, i, j) return j < 64 end))
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

-- ---- beyond the list ------------------------------------------------------------

local route, cluster = T("route", "u8", { "kv" }), T("cluster", "i32", { "kv" })
mask("X01", function(b, h, i, j) return route[i] == route[j] and i >= j end)
mask("X02", function(b, h, i, j) return cluster[i] == cluster[j] end)
mask("X03", function(b, h, i, j) return i >= j and (i - j < 32 or (i - j) % 32 == 0) end)
mask("X04", function(b, h, i, j) return i >= j and (i // 64 == j // 64 or j % 64 >= 60) end)
mask("X05", function(b, h, i, j) -- BigBird's blocks
  local x, y = i // 64, j // 64
  return math.abs(x - y) <= 1 or y == 0 or x == 0 or (x * 7 + 3) % 32 == y
end)
mask("X06", function(b, h, i, j) return ((i * 40503 ~ j * 9973) >> 3) & 15 ~= 0 end)
mask("X07", function(b, h, i, j) -- a tree of drafts
  return j < 100 or (i >= j and (i - 100) & (j - 100) == j - 100)
end)
mask("X08", function(b, h, i, j) return (i - 1024) % 4 == (j - 1024 - 4) // 4 % 4 end)
mask("X09", function(b, h, i, j) return i // 50 >= j // 50 and j // 50 >= i // 50 - 2 end)
mask("X10", function(b, h, i, j) return i >= j and i - j < 32 << h end)
mask("X11", function(b, h, i, j)
  return idb[b][i] == idb[b][j] and (j - off[idb[b][j]]) % 4 == 0 and i >= j
end)
mask("X12", function(b, h, i, j)
  return id[i] == id[j] and i >= j and (i - j < 128 or j - off[id[j]] < 4)
end)
mask("X13", function(b, h, i, j) return j % 128 < 8 or i // 128 == j // 128 end)
mask("X14", function(b, h, i, j) return i // 100 == j // 100 and i % 100 >= j % 100 end)
mask("X15", function(b, h, i, j) return half[i] == half[j] or j == 0 end)
mask("X16", function(b, h, i, j) return (i ~ j) < 64 and i >= j end)

-- ---- the standard mods ---------------------------------------------------------

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
mask("natten", mods.natten(16, 16, 5))
mask("not_mask", mods.not_mask(mods.or_masks(mods.causal, mods.block_diagonal(64))))
score("alibi", mods.alibi(slopes))
score("alibi_formula", mods.alibi())
score("softcap", mods.softcap(c))
score("softcap_fast", mods.softcap_fast(30.0))
score("relative_bias", mods.relative_bias(win, 100))
score("t5_bias", mods.t5_bias(t5))
score("compose", mods.compose(mods.softcap(15.0), mods.alibi(slopes)))

-- ---- expressions in strings -----------------------------------------------------

score("expression_alibi", "score + slopes[h] * (kv - q)")
score("expression_tanh", "c * tanh(score / c) + 0.01 * abs(q - kv)")
score("expression_mask", "(q >= kv or id[q] == id[kv]) and score or -math.huge")
mask("expression_window", "q >= kv and q - kv < w or id[q] ~= id[kv]")
mask("expression_any", "facc.any(3, function(k) return (q + k) % 4 == kv % 4 end)")
mask("expression_lengths", "q < facc.len.q(b) and kv < facc.len.kv(b) - three")
mask("expression_wide", "1 << (h + 58) > kv and ~q ~= kv << 60")

return facc.attention(chosen)
