-- What the tables of hostile scripts call, and the list of tables. Run by
-- test_hostile.c in plain Lua; leaves `cases`.
cases = {}

-- ---- scripts ----------------------------------------------------------------

HEAD = [[
local facc = require "facc"
local f = facc.tensor("f", "f32", { "q" })
local n = facc.tensor("n", "i32", { 64 })
local w = facc.param("w", "i32")
]]

-- A file whose mask_mod has the body; the body begins in line 6.
function mask(body)
  return HEAD .. "return facc.attention { mask_mod = function(b, h, q, kv)\n" .. body .. "\nend }"
end

function score(body)
  return HEAD .. "return facc.attention { score_mod = function(score, b, h, q, kv)\n" .. body .. "\nend }"
end

-- A causal file after the text, which begins in line 5.
function before(text)
  return HEAD .. text .. "\nreturn facc.attention { mask_mod = function(b, h, q, kv) return q >= kv end }"
end

-- ---- what must come of them ---------------------------------------------------

-- The error's line, and a part of its message.
function fails(line, message) return { line = line, message = message } end

-- The program of this mask or score, said plainly.
function same(expression, key)
  return { same = HEAD .. "return facc.attention { " .. (key or "mask") ..
    "_mod = function(" .. (key and "score, " or "") .. "b, h, q, kv) return " .. expression .. " end }" }
end
function same_score(expression) return same(expression, "score") end

causal = same "q >= kv"
loads = {} -- to whatever program

-- Cases that take until the limit of time.
long = os.getenv "FACC_TEST_LONG" == "1"

local group
function case(name, text, want)
  name = group .. ": " .. name
  if only and not name:find(only, 1, true) then return end
  cases[#cases + 1] = { name = name, text = text, line = want.line, message = want.message, same = want.same }
end

for _, name in ipairs { "escape", "memory", "recursion", "loops", "metamethods", "errors", "state", "text", "size" } do
  group = name
  dofile(folder .. name .. ".lua")
end
