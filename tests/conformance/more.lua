local want = "kerple_log"
-- Mods that people write and that the conformance list doesn't name: of papers,
-- of serving and training systems, and of ways to say things in Lua. Row by row
-- as scores.lua and masks.lua.
local facc = require "facc"
local S, inf = 2048, math.huge
local T, P, mods = facc.tensor, facc.param, facc.mods

local chosen = {}
local function row(name) return name == want end
local function score(f) chosen.score_mod = f end
local function mask(f) chosen.mask_mod = f end
local B, H, HKV = 2, 4, 2

local function causal(b, h, i, j) return i >= j end

-- ---- biases by position -----------------------------------------------------------

if row "kerple_log" then
  local r1, r2 = T("positive1", "f32", { "H" }), T("positive2", "f32", { "H" })
  score(function(s, b, h, i, j) return s - r1[h] * math.log(1 + r2[h] * math.abs(i - j)) end)
end
if row "kerple_power" then -- 0 ^ r on the diagonal
  local r1, r2 = T("positive1", "f32", { "H" }), T("positive2", "f32", { "H" })
  score(function(s, b, h, i, j) return s - r1[h] * math.abs(i - j) ^ r2[h] / 8 end)
  mask(causal)
end
if row "fire" then -- a network of one hidden layer, as lists
  local w1, b1, w2 = T("w1", "f32", { 8 }), T("b1", "f32", { 8 }), T("w2", "f32", { "H", 8 })
  local c, far = P("c", "f32"), P("w", "i32")
  score(function(s, b, h, i, j)
    local d = facc.max(i - j, 0)
    local x = math.log(1 + c * d) / math.log(1 + c * math.max(i, far))
    local hidden = {}
    for k = 1, 8 do hidden[k] = facc.relu(w1[k - 1] * x + b1[k - 1]) end
    return s + facc.dot(hidden, w2[h])
  end)
  mask(causal)
end
if row "sandwich_sum" then -- the cosines themselves
  score(function(s, b, h, i, j)
    local sum = facc.sum(16, function(k) return math.cos((i - j) / 10000 ^ (k / 16)) end)
    return s + sum / 16 * (8 * (h + 1) / H)
  end)
end
if row "alibi_two_sides" then -- slopes of their own for what is behind and ahead
  local left, right = T("positive1", "f32", { "H" }), T("positive2", "bf16", { "H" })
  score(function(s, b, h, i, j)
    local d = j - i
    return s + (d < 0 and left[h] * d or -right[h] * d) / 16
  end)
end
if row "alibi_left_pad" then -- keys begin behind padding; positions count from there
  local pad, slopes = T("pad_left", "i32", { "B" }), T("slopes", "f32", { "H" })
  score(function(s, b, h, i, j)
    return j < pad[b] and -inf or s - slopes[h] * math.abs((i - pad[b]) - (j - pad[b]))
  end)
end
if row "alibi_of_any_heads" then -- the paper's rule for a number of heads that is no power of two
  local n = 2 ^ (math.log(H - 1, 2) // 1)
  local slopes = {}
  for k = 1, H do
    slopes[k] = k <= n and 2 ^ (-8 * k / n) or 2 ^ (-4 * (2 * (k - n) - 1) / n)
  end
  score(function(s, b, h, i, j) return s - facc.lookup(slopes, h + 1) * math.abs(i - j) end)
end
if row "swin_index" then -- windows of 7 x 7, the table's place by arithmetic
  local bias = T("swin", "f32", { 169, "H" })
  score(function(s, b, h, i, j)
    local y, x = i % 49 // 7 - j % 49 // 7 + 6, i % 49 % 7 - j % 49 % 7 + 6
    return s + bias[13 * y + x][h]
  end)
  mask(function(b, h, i, j) return i // 49 == j // 49 end)
end
if row "swin_shifted" then -- rolled by 3 of 7: tokens of one window and one region
  local function region(t) -- of an image of 28 x 28
    local y, x = t // 28, t % 28
    local function part(v) if v < 21 then return 0 elseif v < 25 then return 1 end return 2 end
    return part(y) * 3 + part(x), y // 7 * 4 + x // 7
  end
  mask(function(b, h, i, j)
    local ri, wi = region(i)
    local rj, wj = region(j)
    return wi == wj and ri == rj
  end)
end
if row "beit" then -- 14 x 14 patches behind a class token
  local W, N = 14, 27 * 27 + 3
  local bias = T("beit", "f16", { N, "H" })
  local function index(i, j)
    if i == 0 and j == 0 then return N - 1 end
    if i == 0 then return N - 3 end
    if j == 0 then return N - 2 end
    local y, x = (i - 1) // W - (j - 1) // W + W - 1, (i - 1) % W - (j - 1) % W + W - 1
    return y * (2 * W - 1) + x
  end
  score(function(s, b, h, i, j)
    if math.max(i, j) > W * W then return i == j and s or -inf end
    return s + bias[index(i, j)][h]
  end)
end
if row "beit_table" then -- the same by a table of places
  local place, bias = T("below64", "i64", { 197, 197 }), T("beit", "f32", { 64, "H" })
  score(function(s, b, h, i, j)
    if math.max(i, j) > 196 then return s end
    return s + bias[place[i][j]][h]
  end)
end
if row "swinv2" then -- cosines by a learned, limited temperature; 16 sigmoid(table)
  local scale, table = T("logit_scale", "f32", { "H" }), T("cpb", "f32", { "H", 49, 49 })
  score(function(s, b, h, i, j)
    return s * facc.exp(math.min(scale[h], math.log(100.0))) + 16 * facc.sigmoid(table[h][i % 49][j % 49])
  end)
end
if row "shaw_clipped" then -- a row with the embedding of a clipped distance
  local u, emb = T("rows", "f16", { "B", "H", "q", 8 }), T("shaw", "f32", { 33, 8 })
  score(function(s, b, h, i, j)
    return s + facc.dot(u(b, h, i), emb[facc.clamp(j - i, -16, 16) + 16]) / math.sqrt(8)
  end)
end
if row "transformer_xl" then -- the row with the distance's embedding, and biases of both
  local u, r = T("rows", "f32", { "B", "H", "q", 8 }), T("xl", "f32", { "H", 2 * S, 8 })
  local v = T("heads8", "f32", { "H", 8 })
  score(function(s, b, h, i, j)
    local e = r(h, i - j + S)
    return s + 0.25 * (facc.dot(u(b, h, i), e) + facc.dot(v[h], e))
  end)
end
if row "music_transformer" then -- already skewed
  local rel = T("dense4", "bf16", { "B", "H", "q", S })
  score(function(s, b, h, i, j) return i >= j and s + rel(b, h, i, S - 1 - (i - j)) or -inf end)
end
if row "deberta" then -- content to place and back
  local k = 32
  local c2p, p2c = T("c2p", "f32", { "B", "H", "q", 64 }), T("p2c", "f32", { "B", "H", "kv", 64 })
  score(function(s, b, h, i, j)
    local d = facc.clamp(i - j + k, 0, 2 * k - 1)
    return (s + c2p[b][h][i][d] + p2c[b][h][j][2 * k - 1 - d]) / math.sqrt(3)
  end)
end
if row "rope_term" then -- pairs of a rotary part that is turned by the mod
  local u, v = T("rows", "f32", { "q", 4 }), T("cols", "f32", { "kv", 4 })
  score(function(s, b, h, i, j)
    local sum = 0.0
    for k = 0, 1 do
      local a = (i - j) * 100 ^ -(k / 2)
      local x, y, z, w = u[i][2 * k], u[i][2 * k + 1], v[j][2 * k], v[j][2 * k + 1]
      sum = sum + (x * z + y * w) * facc.cos(a) + (x * w - y * z) * facc.sin(a)
    end
    return s + sum
  end)
end
if row "retnet" then -- decay by distance, as a factor
  score(function(s, b, h, i, j)
    local gamma = 1 - 2.0 ^ (-5 - h)
    return i >= j and s * gamma ^ (i - j) or -inf
  end)
end
if row "xpos_log" then -- the same in the exponent
  score(function(s, b, h, i, j) return s + (i - j) * math.log(1 - 2.0 ^ (-5 - h)) end)
  mask(causal)
end
if row "rmt_manhattan" then -- decay by distance in an image of 25 columns
  score(function(s, b, h, i, j)
    local d = math.abs(i // 25 - j // 25) + math.abs(i % 25 - j % 25)
    return s + d * math.log(1 - 2.0 ^ (-3 - h))
  end)
end
if row "gaussian_window" then -- around a centre that each row has
  local centre, width = T("shift_of_row", "f32", { "B", "H", "q" }), T("positive1", "f32", { "H" })
  score(function(s, b, h, i, j)
    local d = (j - (i + 8 * centre(b, h, i))) / (32 * width[h])
    return s - d * d / 2
  end)
end
if row "tisasrec" then -- intervals of times in milliseconds, beyond 2^31
  local time, bias = T("time", "i64", { "B", S }), T("near", "f32", { 201 })
  score(function(s, b, h, i, j)
    return s + bias[facc.min(math.abs(time[b][i] - time[b][j]) // 1000, 200)]
  end)
end
if row "hstu" then -- buckets of the logarithm of time, and places
  local time, ts, pos = T("time", "i64", { "B", S }), T("ts_w", "f32", { 129 }), T("rel", "f32", { 2 * S })
  score(function(s, b, h, i, j)
    local dt = math.max(1, math.abs(time(b, i) - time(b, j)))
    local bucket = facc.clamp(math.floor(math.log(dt) / 0.301 + 1e-3), 0, 128)
    return s + ts[bucket] + pos[S - 1 + j - i]
  end)
  mask(causal)
end
if row "axial_2d" then -- two tables, one for each axis
  local rows, cols = T("rel_rows", "f32", { "H", 99 }), T("rel_cols", "f32", { "H", 99 })
  score(function(s, b, h, i, j)
    return s + rows[h][i // 50 - j // 50 + 49] + cols[h][i % 50 - j % 50 + 49]
  end)
end
if row "video_3d" then -- t, y, x of 8 x 8 frames by tables of each
  local t, y, x = T("rel_t", "f16", { 65 }), T("rel_y", "f16", { 15 }), T("rel_x", "f16", { 15 })
  score(function(s, b, h, i, j)
    local function at(n) return n // 64, n // 8 % 8, n % 8 end
    local ti, yi, xi = at(i)
    local tj, yj, xj = at(j)
    return s + t[ti - tj + 32] + y[yi - yj + 7] + x[xi - xj + 7]
  end)
end

-- ---- scores -------------------------------------------------------------------------

if row "llama4_temperature" then
  score(function(s, b, h, i, j) return s * (math.log(math.floor((i + 1) / 64) + 1) * 0.1 + 1) end)
  mask(function(b, h, i, j) return i >= j and i // 256 == j // 256 end)
end
if row "entropy_scaled" then -- by the number of keys that a row sees
  score(function(s, b, h, i, j)
    local n = math.min(i + 1, facc.len.kv(b))
    return s * math.log(n + 1) / math.log(512)
  end)
  mask(causal)
end
if row "yarn_temperature" then
  local factor = P("c", "f32")
  score(function(s) return s * (0.1 * math.log(factor) + 1) ^ 2 end)
end
if row "head_temperature" then
  local t = T("temperature", "f16", { "H" })
  score(function(s, b, h) return s / facc.clamp(t[h], 0.25, 4) end)
end
if row "grok_caps" then -- capped, biased, capped again
  local slopes = T("slopes", "f32", { "H" })
  score(mods.compose(mods.softcap(30.0), mods.alibi(slopes), function(s)
    return 10.0 * facc.tanh(s * 0.1)
  end))
  mask(causal)
end
if row "head_caps" then -- a cap for each head, none where it is 0
  local cap = T("cap", "f32", { "H" })
  score(function(s, b, h)
    local c = cap[h]
    return facc.where(c > 0, c * facc.tanh(s / facc.max(c, 1e-6)), s)
  end)
end
if row "hard_clip" then score(function(s) return facc.clamp(s, -1.5, 1.5) end) end
if row "softsign" then score(function(s) return 4 * s / (4 + math.abs(s)) end) end
if row "qk_norm" then -- reciprocal norms of rows and columns
  local rq, rk = T("positive1", "f32", { "B", "H", "q" }), T("positive2", "f16", { "B", "Hkv", "kv" })
  score(function(s, b, h, i, j) return 10.0 * s * rq(b, h, i) * rk(b, h // (H // HKV), j) end)
end
if row "gat" then -- a graph's attention by two sums, leaky
  local a, c = T("gat_row", "f32", { "H", "q" }), T("gat_col", "f32", { "H", "kv" })
  score(function(s, b, h, i, j)
    local x = a[h][i] + c[h][j]
    return x >= 0 and x or 0.2 * x
  end)
end
if row "points" then -- distances of points, as slices and by a loop
  local p = T("points", "f32", { "B", S, 3 })
  score(function(s, b, h, i, j)
    local x, y = p(b, i), p(b, j)
    local d2 = facc.dot(x, x) + facc.dot(y, y) - 2 * facc.dot(x, y)
    return s - facc.sum(3, function(k) return (x[k] - y[k]) ^ 2 end) + 0.5 * d2
  end)
end
if row "hausdorff" then -- the largest distance along an axis
  local p = T("points", "f16", { S, 3 })
  score(function(s, b, h, i, j)
    return s - facc.max(3, function(k) return math.abs(p[i][k] - p[j][k]) end)
  end)
end
if row "log_prior" then -- some of them 0: masked
  local prior = T("prior", "f32", { "B", "kv" })
  score(function(s, b, h, i, j) return s + math.log(prior[b][j]) end)
end
if row "sigmoid_attention" then -- its bias, -log of the length
  score(function(s, b) return s - math.log(facc.len.kv(b)) end)
end
if row "alphafold" then -- pair bias, and a mask of large numbers
  local pair, keep = T("dense4", "bf16", { "B", "H", "q", "kv" }), T("some", "u8", { "B", "kv" })
  score(function(s, b, h, i, j)
    return s + pair(b, h, i, j) + 1e9 * (keep(b, j) - 1)
  end)
end
if row "huggingface_float_mask" then -- min of f16 in an additive mask
  local keep = T("some", "bool", { "B", "kv" })
  score(function(s, b, h, i, j) return s + (keep[b][j] and 0.0 or -65504.0) end)
end
if row "e8m0" then -- scales that are exponents
  local qe, ke = T("exponent1", "u8", { "B", "H", S // 32 }), T("exponent2", "u8", { "B", "Hkv", S // 32 })
  score(function(s, b, h, i, j)
    return s * facc.exp2(qe(b, h, i // 32) - 127 + (ke(b, h // 2, j // 32) - 127))
  end)
end
if row "zero_points" then -- of asymmetric int8: the correction of a row and a column
  local zq, zk = T("zero1", "i8", { "q" }), T("zero2", "i8", { "Hkv", "kv" })
  local sq = T("row_sum", "f32", { "B", "H", "q" })
  score(function(s, b, h, i, j) return (s - zk(h // 2, j) * sq(b, h, i) / 64 - zq[i] / 32) * 0.75 end)
end
if row "product_quantised" then -- a table for each of four parts of a code
  local lut, code = T("lut", "f16", { "B", "H", 4, 16 }), T("below16", "u8", { "B", "Hkv", "kv", 4 })
  score(function(s, b, h, i, j)
    return s / 2 + facc.sum(4, function(k) return lut(b, h, k, code(b, h // 2, j, k)) end)
  end)
end
if row "slices_of_slices" then
  local m = T("mixer", "f32", { "H", 3, 4 })
  score(function(s, b, h, i, j)
    local x = m(h)
    return s + facc.sum(x[j % 3]) * 0.5 + facc.max(x(i % 3)) - facc.min(x[0]) + #x + #x[0] - 7
         + facc.dot(x[1], { i % 2, 1, s / 8, -1 })
  end)
end
if row "minmax_lists" then
  score(function(s, b, h, i, j)
    return facc.max { s, s / 2, -1 } - facc.min { j % 5, i % 3, 2 } / 4 + facc.sum { h, b, 0.5 }
         + (facc.any { i == j, j == 0 } and 1 or 0) - (facc.all { i > j, j > 3 } and 1 or 0)
  end)
end
if row "sink_that_is_none" then -- keys that a head may not use at all, by -inf in a tensor
  local gate = T("gate", "f32", { "H", "kv" })
  score(function(s, b, h, i, j) return s + gate[h][j] end)
end
if row "differential" then -- heads in pairs of other signs
  score(function(s, b, h, i, j) return (h % 2 == 0 and 1 or -0.8) * s end)
end
if row "talking_constant" then -- what does not read the score
  local prior = T("dense2", "f32", { "q", "kv" })
  score(function(s, b, h, i, j) return prior[i][j] * 4 end)
end
if row "polynomial" then score(function(s) return ((0.125 * s + 0.5) * s - 1) * s + 2 ^ 0.5 end) end
if row "whole_score" then score(function(s, b, h, i, j) return (j * 7 + i * 3) % 11 end) end
if row "score_is_bool_sum" then
  score(function(s, b, h, i, j)
    local n = 0
    for _, c in ipairs { i == j, i > j, j % 3 == 0, s > 0 } do if c then n = n + 1 end end
    return s / 2 + n
  end)
end

-- ---- minus infinity inside a score, and what is made of it -------------------------

local function hidden(s, b, h, i, j) return i >= j and s or -inf end
if row "inf_capped" then score(mods.compose(hidden, mods.softcap(5.0))) end -- masks nothing
if row "inf_clamped" then score(function(...) return math.max(hidden(...), -2) end) end
if row "inf_exp" then score(function(...) return math.exp(hidden(...)) + facc.sigmoid(hidden(...)) end) end
if row "inf_relu" then score(function(...) return facc.relu(hidden(...)) end) end
if row "inf_scaled" then score(function(...) return hidden(...) * 0.5 - 3 end) end
if row "inf_floor" then score(function(...) return hidden(...) // 1 end) end
if row "inf_both" then
  score(function(s, b, h, i, j) return hidden(s, b, h, i, j) + (j % 3 == 0 and 0 or -inf) end)
end
if row "inf_either" then
  score(function(s, b, h, i, j)
    return math.max(hidden(s, b, h, i, j), j % 3 == 0 and s or -inf)
  end)
end
if row "inf_of_log" then
  score(function(s, b, h, i, j) return math.log(i >= j and 2.0 or 0.0) + s end)
end
if row "inf_of_division" then
  score(function(s, b, h, i, j) return 1 / (i >= j and 2.0 or -0.0) + s end)
end
if row "inf_beyond_f32" then -- -1e39
  score(function(s, b, h, i, j) return (i >= j and s or -1e38) * 10 end)
end

-- ---- masks: windows and grids ------------------------------------------------------

local function natten_1d(length, kernel, dilation)
  return function(b, h, i, j)
    -- each residue is a sequence of its own, whose border moves the window inwards
    local n = (length - i % dilation + dilation - 1) // dilation
    local x, y = i // dilation, j // dilation
    return i % dilation == j % dilation
       and math.abs(facc.clamp(x, kernel // 2, n - 1 - kernel // 2) - y) <= kernel // 2
  end
end
if row "natten_1d" then mask(natten_1d(640, 33, 1)) end
if row "natten_1d_dilated" then mask(natten_1d(640, 13, 7)) end
if row "natten_2d_dilated" then
  local height, width, r, d = 24, 27, 2, 3
  mask(function(b, h, i, j)
    local function inside(x, y, n)
      return x % d == y % d and
        math.abs(facc.clamp(x // d, r, (n - x % d + d - 1) // d - 1 - r) - y // d) <= r
    end
    return inside(i // width, j // width, height) and inside(i % width, j % width, width)
  end)
end
if row "natten_3d" then -- time is causal, space is not
  mask(function(b, h, i, j)
    local function at(n) return n // 80, n // 10 % 8, n % 10 end
    local t1, y1, x1 = at(i)
    local t2, y2, x2 = at(j)
    return t2 <= t1 and t1 - t2 <= 2 and math.abs(facc.clamp(y1, 2, 5) - y2) <= 2
       and math.abs(facc.clamp(x1, 1, 8) - x2) <= 1
  end)
end
if row "torus" then -- neighbours across the border
  mask(function(b, h, i, j)
    local function near(x, y, n) local d = (x - y) % n return math.min(d, n - d) <= 3 end
    return near(i // 25, j // 25, 26) and near(i % 25, j % 25, 25)
  end)
end
if row "image_width_of_batch" then -- images of other sizes in a batch
  local width = T("width", "i32", { "B" })
  mask(function(b, h, i, j)
    local w = width[b]
    return math.abs(i // w - j // w) <= 2 and math.abs(i % w - j % w) <= 4
  end)
end
if row "axial_video" then -- the same frame, or the same pixel in all frames
  mask(function(b, h, i, j) return i // 90 == j // 90 or i % 90 == j % 90 end)
end
if row "window_of_heads" then -- i32 per head, on both sides, -1 for none
  local left, right = T("window_left", "i32", { "H" }), T("window_right", "i32", { "H" })
  mask(function(b, h, i, j)
    local l, r = left[h], right[h]
    return (l < 0 or i - j <= l) and (r < 0 or j - i <= r)
  end)
end
if row "lookahead" then local n = P("W", "i32") mask(function(b, h, i, j) return j <= i + n end) end
if row "chunks_of_speech" then -- streaming: this chunk and some before
  local size, left = 40, P("position", "i32")
  mask(function(b, h, i, j)
    local x, y = i // size, j // size
    return y <= x and y >= x - left // size
  end)
end
if row "log_sparse" then -- distances that are powers of two
  mask(function(b, h, i, j) local d = i - j return d >= 0 and d & (d - 1) == 0 end)
end
if row "strided_heads" then -- Sparse Transformer: each pattern in a head of its own
  mask(function(b, h, i, j)
    if i < j then return false end
    if h % 2 == 0 then return i - j < 32 end
    return (i - j) % 32 == 0
  end)
end
if row "checkerboard" then mask(function(b, h, i, j) return (i + j) % 2 == 0 end) end
if row "z_order" then -- neighbours in an image that is stored in Morton order
  mask(function(b, h, i, j)
    local function squeeze(n)
      n = n & 0x5555
      n = (n | n >> 1) & 0x3333
      n = (n | n >> 2) & 0x0f0f
      return (n | n >> 4) & 0x00ff
    end
    return math.abs(squeeze(i) - squeeze(j)) <= 2 and math.abs(squeeze(i >> 1) - squeeze(j >> 1)) <= 2
  end)
end
if row "halo" then -- blocks with a border of 16
  mask(function(b, h, i, j) local x = i // 64 * 64 return j >= x - 16 and j < x + 64 + 16 end)
end

-- ---- masks: blocks and lists ---------------------------------------------------------

if row "block_list" then -- the blocks that a block of rows selects, as a list
  local list = T("below10", "i32", { "B", "Hkv", S // 64, 3 })
  mask(function(b, h, i, j)
    return i >= j and facc.any(3, function(k) return list(b, h // 2, i // 64, k) == j // 64 end)
  end)
end
if row "block_list_counted" then -- of so many
  local list, n = T("below10", "i32", { "B", S // 64, 6 }), T("below6", "i32", { "B", S // 64 })
  mask(function(b, h, i, j)
    for k = 0, 5 do
      if k <= n(b, i // 64) and list(b, i // 64, k) == j // 64 then return true end
    end
    return false
  end)
end
if row "block_bits" then -- 64 blocks in an integer
  local bits = T("bits", "i64", { "B", "H", S // 64 })
  mask(function(b, h, i, j) return bits[b][h][i // 64] >> (j // 64) & 1 == 1 end)
end
if row "vertical_slash" then -- MInference
  local vertical, slash = T("some_keys", "bool", { "H", S }), T("some", "bool", { "H", S })
  mask(function(b, h, i, j) return i >= j and (vertical[h][j] or slash[h][i - j] or i - j < 16) end)
end
if row "heavy_hitters" then -- H2O: those of a head, and the last ones
  local heavy = T("some", "u8", { "B", "H", "kv" })
  mask(function(b, h, i, j) return i >= j and (heavy(b, h, j) ~= 0 or i - j < 40) end)
end
if row "block_list_csr" then -- as many as the next row of lists leaves
  local first, list = T("csr_first", "i32", { S // 64 + 1 }), T("below32", "i32", { 192 })
  mask(function(b, h, i, j)
    local from, to = first[i // 64], first[i // 64 + 1]
    return facc.any(6, function(k)
      return from + k < to and list[facc.min(from + k, 191)] == j // 64
    end)
  end)
end
if row "chunk_and_previous" then -- that causally
  mask(function(b, h, i, j)
    local x, y = i // 100, j // 100
    return x == y or (x == y + 1 and i >= j)
  end)
end
if row "three_chunks" then
  mask(function(b, h, i, j)
    local d = i // 100 - j // 100
    return d == 0 or d == 2 or d == 1
  end)
end
if row "neighbour_documents" then
  local id = T("id", "i32", { S })
  mask(function(b, h, i, j)
    return i >= j and not (id[i] ~= id[j] and id[i] ~= id[j] + 1)
  end)
end
if row "text_then_video" then -- frames of 10 x 16 behind 77 tokens
  local n = 77
  mask(function(b, h, i, j)
    if i < n or j < n then return true end
    local function at(t) t = t - n return t // 160, t // 16 % 10, t % 16 end
    local t1, y1, x1 = at(i)
    local t2, y2, x2 = at(j)
    return math.abs(t1 - t2) <= 1 and math.abs(y1 - y2) <= 3 and math.abs(x1 - x2) <= 4
  end)
end
if row "sinkhorn" then -- blocks are matched
  local match = T("match", "i32", { 32 })
  mask(function(b, h, i, j) return match[i // 64] == j // 64 or i // 64 == j // 64 end)
end
if row "lsh" then -- buckets of four rounds; a token sees itself last
  local bucket = T("below7", "u8", { "B", 4, S })
  mask(function(b, h, i, j)
    return i == j or (i > j and facc.any(4, function(r) return bucket(b, r, i) == bucket(b, r, j) end))
  end)
end
if row "nsa_branches" then -- a branch for each head: compressed, selected, window
  local sel = T("below10", "i32", { "B", S // 64, 2 })
  mask(function(b, h, i, j)
    local kind = h % 3
    if i < j then return false end
    if kind == 0 then return j % 16 == 15 end
    if kind == 1 then return sel(b, i // 64, 0) == j // 64 or sel(b, i // 64, 1) == j // 64 end
    return i - j < 64
  end)
end
if row "moba" then -- a gate of each query for each chunk
  local gate = T("some", "bool", { "H", "q", S // 128 })
  mask(function(b, h, i, j)
    local own = i // 128 == j // 128
    return own and i >= j or not own and i > j and gate(h, i, j // 128)
  end)
end

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
