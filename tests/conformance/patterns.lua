local want = "natten_1d"
-- Masks that are patterns: windows, grids, blocks and lists of blocks. Row by row
-- as masks.lua.
local facc = require "facc"
local S = 2048
local T, P = facc.tensor, facc.param

local chosen = {}
local function row(name) return name == want end
local function mask(f) chosen.mask_mod = f end

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

-- ---- masks: models of images and videos ----------------------------------------------

if row "disc" then -- neighbours by the square of their distance, in rows of 45
  mask(function(b, h, i, j)
    local dy, dx = i // 45 - j // 45, i % 45 - j % 45
    return dy * dy + dx * dx <= 36
  end)
end
if row "disc_of_powers" then -- the same with a root and a corner cut off
  local c = P("c", "f32")
  mask(function(b, h, i, j)
    local dy, dx = i // 45 - j // 45, i % 45 - j % 45
    return math.sqrt(dy ^ 2 + dx ^ 2) < c / 4 + 1.25 and dy ^ 4 + dx ^ 4 <= 1400
  end)
end
if row "radial" then -- Radial Attention: bands that halve as frames are further away
  local n = 64
  mask(function(b, h, i, j)
    local frames = math.abs(i // n - j // n)
    if j < n or frames <= 1 then return true end
    local width = math.max(n >> math.floor(math.log(frames + 0.5, 2)), 1)
    return math.abs(i % n - j % n) < width
  end)
end
if row "self_forcing" then -- blocks of frames, a window of some, a first one for all
  local cfg = { frame = 40, block = 3, window = 6, sinks = 1 }
  mask(function(b, h, i, j)
    local size = cfg.frame * cfg.block
    local ends = math.min((i // size + 1) * size, facc.len.kv(b))
    return j < ends and (j >= ends - cfg.window * cfg.frame or j < cfg.sinks * cfg.frame)
  end)
end
if row "na3d_options" then -- axes in a loop, each with options of its own
  local shape, options = { 6, 16, 24 }, {
    { kernel = 3, causal = true }, { kernel = 7 }, { kernel = 3, dilation = 2 },
  }
  local function unravel(n)
    local at = {}
    for axis = #shape, 1, -1 do
      at[axis] = n % shape[axis]
      n = n // shape[axis]
    end
    return at
  end
  mask(function(b, h, i, j)
    local p, r = unravel(i), unravel(j)
    for axis, o in ipairs(options) do
      local d = o.dilation or 1
      if p[axis] % d ~= r[axis] % d then return false end
      local x, y = p[axis] // d, r[axis] // d
      local n = (shape[axis] - p[axis] % d + d - 1) // d
      local first = o.causal and x - o.kernel + 1 or facc.clamp(x - o.kernel // 2, 0, n - o.kernel)
      if y < first or y >= first + o.kernel or (o.causal and y > x) then return false end
    end
    return true
  end)
end
if row "hilbert" then -- neighbours in an image that is stored along Hilbert's curve
  local where = facc.where
  local function at(d)
    local t, x, y, s = d, 0, 0, 1
    for _ = 1, 6 do
      local rx, ry = t // 2 & 1, (t ~ t // 2) & 1
      local function turned() return ry == 0 and rx == 1 end
      local function swapped() return ry == 0 end
      x, y = where(turned, s - 1 - x, x), where(turned, s - 1 - y, y)
      x, y = where(swapped, y, x) + s * rx, where(swapped, x, y) + s * ry
      t, s = t // 4, s * 2
    end
    return x, y
  end
  mask(function(b, h, i, j)
    local x, y = at(i)
    local z, w = at(j)
    return math.abs(x - z) <= 3 and math.abs(y - w) <= 3
  end)
end
if row "rectangle_band" then -- around the diagonal of a rectangle, in real numbers
  mask(function(b, h, i, j)
    return math.abs(i * facc.len.kv(b) / facc.len.q(b) - j) <= 64
  end)
end

-- ---- masks: sparse models ---------------------------------------------------------------

if row "longnet" then -- segments with a dilation each, moved by heads
  local segments = { { w = 64, r = 1 }, { w = 128, r = 2 }, { w = 512, r = 4 } }
  mask(function(b, h, i, j)
    if j > i then return false end
    for _, s in ipairs(segments) do
      local same, phase = i // s.w == j // s.w, h % s.r
      if same and i % s.w % s.r == phase and j % s.w % s.r == phase then return true end
    end
    return false
  end)
end
if row "butterfly" then -- Pixelated Butterfly: blocks that differ in one bit
  mask(function(b, h, i, j) local x = i // 32 ~ j // 32 return x & (x - 1) == 0 end)
end
if row "moba_threshold" then -- chunks whose gate is not below the row's k-th
  local gate, least = T("gates", "f32", { "H", "q", S // 64 }), T("row_least", "f32", { "H", "q" })
  mask(function(b, h, i, j)
    local x, y = i // 64, j // 64
    if x == y then return i >= j end
    return y < x and gate[h][i][y] >= least[h][i]
  end)
end

return facc.attention(chosen)
