local want = "kerple_log"
-- Biases by position that people add to scores: of papers and of training
-- systems. Row by row as scores.lua.
local facc = require "facc"
local S, inf = 2048, math.huge
local T, P = facc.tensor, facc.param

local chosen = {}
local function row(name) return name == want end
local function score(f) chosen.score_mod = f end
local function mask(f) chosen.mask_mod = f end
local H = 4

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
if row "cope" then -- positions that are counted by gates, between two embeddings
  local pos, emb = T("positive1", "f32", { "H", "q", "kv" }), T("dense3", "f32", { "H", "q", 33 })
  score(function(s, b, h, i, j)
    local p = facc.clamp(pos[h][i][j] * 30 - 5, 0.25, 31.75)
    local up, down = math.ceil(p), math.floor(p)
    return s + emb[h][i][up] * (p - down) + emb[h][i][down] * (1 - (p - down))
  end)
  mask(causal)
end
if row "dape" then -- a small network of the score and its bias
  local w1, w2 = T("w1", "f32", { "H", 2, 6 }), T("w2", "f32", { "H", 6 })
  local function leaky(x, slope) return math.max(x, (slope or 0.01) * x) end
  score(function(s, b, h, i, j)
    local bias, out = -(2 ^ (-2 * (h + 1))) * math.abs(i - j), 0
    for k = 0, 5 do out = out + leaky(s * w1[h][0][k] + bias / 8 * w1[h][1][k]) * w2[h][k] end
    return s + bias + out
  end)
  mask(causal)
end
if row "hann_window" then
  score(function(s, b, h, i, j)
    local d = i - j
    return s + math.log(math.abs(d) < 48 and 0.5 * (1 + math.cos(math.pi * d / 48)) or 0)
  end)
end
if row "cosformer" then
  score(function(s, b, h, i, j)
    return facc.relu(s) * math.cos((i - j) / math.max(facc.size.q, facc.size.kv) * math.pi / 2)
  end)
end
if row "circular" then -- a table of distances on a circle
  local n, t = 2 ^ 8, T("xl", "f32", { 2 ^ 7 + 1, "H" })
  score(function(s, b, h, i, j)
    local d = (i - j) % 256
    if d > n // 2 then d = 256 - d end
    return s + t[d][h]
  end)
end
if row "points_within" then -- by the square of a distance that is measured
  local x, y = T("seconds", "f32", { "B", S }), T("y", "f32", { "B", S })
  local function square(b, i, j)
    local dx, dy = x[b][i] - x[b][j], y[b][i] - y[b][j]
    return dx * dx + dy * dy
  end
  score(function(s, b, h, i, j) return s - square(b, i, j) / 2 ^ (h + 5) end)
  mask(function(b, h, i, j) return square(b, i, j) < 12.5 * 12.5 end)
end

return facc.attention(chosen)
