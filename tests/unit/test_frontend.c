/* What a file may hold and what each trap gives: a program or the exact
 * message. */

#include "tests/unit/frontend_fixture.h"

/* --- traps -------------------------------------------------------- */

struct trap {
    const char *body;
    const char *message; /* first line wanted; NULL: it loads */
};

static const char impure[] =
    "the function changes a variable or table outside of itself: its result "
    "would depend on how often it runs";
static const char wants_bool[] =
    "the function must return true or false, got a traced number";

static const char element[] =
    "an element of tensor 'ti' is a condition, and in Lua every number counts "
    "as true, 0 too; compare it (~= 0), or declare a bool tensor";

static const char float_index[] =
    "index 1 of tensor 'tb' is a float; use // on integers (n / 2 and 2 ^ n "
    "are floats) or math.floor";
static const char chained[] =
    "attempt to compare boolean with number; a <= x <= b is written a <= x and "
    "x <= b";
static const char bitwise[] =
    "attempt to perform bitwise operation on a boolean value; booleans take "
    "\"and\", \"or\" and \"not\"";

static const struct trap traps[] = {
    /* state */
    {"local n = 0\nscore = function(s) n = n + 1 return s + n end",
     "score_mod is not a pure function: traced in another order of its "
     "comparisons it gives another result"},
    {"local n = 0\nscore = function(s, b, h, q, kv) n = n + 1\nif q > kv then "
     "return s end return s + n end",
     impure},
    {"local f = false\nscore = function(s, b, h, q, kv) f = not f\nif q >= kv "
     "then return s + (f and 1 or 0) end return s - 5 end",
     impure},
    {"local m = {}\nmask = function(b, h, q, kv) m[#m + 1] = 1\nif #m > 3 then "
     "return q >= kv end return q <= kv end",
     impure},
    {"local m\nmask = function(b, h, q, kv) m = m or 100 return q - kv < m end",
     NULL},
    {"local k = 0\nmask = function(b, h, q, kv) k = 1 - k\nif q >= kv then "
     "return k == 1 end return false end",
     impure},
    {"mask = function(b, h, q, kv) G = (G or 0) + 1\nif G > 5 then return q > "
     "kv end return q >= kv end",
     impure},
    {"local keep\nscore = function(s, b, h, q, kv) keep = keep or q\nreturn s "
     "+ "
     "keep end",
     "+: a traced value was kept from an earlier run or from inside "
     "facc.where/sum/any/all/max/min"},
    {"local keep\nscore = function(s, b, h, q, kv) if q >= kv then keep = q + "
     "1 end return s + (keep or 0) end",
     "+: a traced value was kept from an earlier run or from inside "
     "facc.where/sum/any/all/max/min"},
    {"score = function(s, b, h, q, kv) local x = 0\nlocal y = "
     "facc.where(function() x = q + 1 return q > kv end, 1, 2)\nreturn s + x "
     "+ y end",
     impure},
    {"score = function(s, b, h, q, kv) local n = 0\nlocal y = facc.sum(3, "
     "function(k) n = n + 1 return kv > k and 1 or 0 end) return s + n + y "
     "end",
     impure},
    {"score = function(s) facc.sum(3, function(k) s = s + k return 0 end) "
     "return s end",
     impure},
    /* plain tables and traced keys */
    {"score = function(s, b, h) local t = {0.5, 0.25}\nreturn s + (t[h + 1] or "
     "0) end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"score = function(s, b, h) local t = {0.5, 0.25}\nreturn s * (t[h] or 1) "
     "end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"score = function(s, b, h) local t = {}\nt[h] = 1\nreturn s end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"score = function(s, b, h) local t = {0.5, 0.25}\nlocal x = t[h]\nreturn "
     "s + tb[0] end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"score = function(s, b, h) local t = 'text'\nlocal x = t[h]\nreturn s + "
     "tb(0) end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"score = function(s) local t = {0.5, 0.25}\nreturn s + (t[i0] or 0) end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"score = function(s, b, h) return s + tb[i0] + t2[i0][h] end", NULL},
    {"score = function(s, b, h) error(42) end", "42"},
    {"score = function(s, b, h) error(h) end",
     "the error object is a traced number"},
    {"score = function(s, b, h) tb[h] = 1 return s end",
     "captured tensors are read-only"},
    {"score = function(s, b, h, q) return s + h[q] end",
     "a traced number is indexed (more indices than the tensor has "
     "dimensions?)"},
    {"score = function(s, b, h) local t = {[h] = 1} return s end",
     "a plain Lua table is indexed with a traced value; use "
     "facc.tensor for data, or facc.lookup(list, i)"},
    {"mask = function(b, h, q, kv) local t = {} for i = 1, 3 do t[i] = q + i "
     "end t.x = kv return t[2] > t.x end",
     NULL},
    /* traced numbers are numbers and nothing else */
    {"score = function(s, b, h) return s + #h end",
     "a traced number has no length"},
    {"score = function(s) for i, v in ipairs(tb) do s = s + v end return s "
     "end",
     "ipairs over a tensor: its length is not known while tracing; use "
     "facc.sum/any/all/max/min"},
    {"score = function(s, b, h) for i = 0, h do s = s + 1 end return s end",
     "bad 'for' limit (number expected, got traced number); use facc.sum(n, f) "
     "with a constant n, and a comparison inside of f"},
    {"score = function(s, b, h) for i = h, 9 do s = s + 1 end return s end",
     "bad 'for' initial value (number expected, got traced number); use "
     "facc.sum(n, f) with a constant n, and a comparison inside of f"},
    {"score = function(s) return s + '10' end",
     "+: strings are not converted to numbers in a mod (got \"10\")"},
    {"score = function(s, b, h) return '10' * h + s end",
     "*: strings are not converted to numbers in a mod (got \"10\")"},
    {"score = function(s) return s .. 'x' end",
     "a traced value has no text while tracing"},
    {"score = function(s, b, h) return tostring(h) == '1' and s or -s end",
     "a traced value has no text while tracing"},
    {"score = function(s, b, h) return s + #string.format('%d', h) end",
     "bad argument #2 to 'format' (number expected, got traced number)"},
    {"score = function(s, b, h) return s + h.x end",
     "a traced number is indexed (more indices than the tensor has "
     "dimensions?)"},
    {"score = function(s, b, h) return h(s) end", "a traced number is called"},
    {"score = function(s, b, h) h.x = 1 return s end",
     "a traced number is assigned to"},
    {"score = function(s, b, h, q) return s + slopez[h] end",
     "attempt to index a nil value (global 'slopez')"},
    {"mask = function(b, h, q, kv) while true do facc.sum(9, function(k) "
     "return q end) end end",
     "the functions inside facc.sum/any/all/max/min/where run too often: does "
     "a loop never end?"},
    {"mask = function() while true do facc.attention { mask_mod = 'true' } "
     "end end",
     "facc.attention is called inside of a mod"},
    {"mask = function(b, h, q, kv) return q >= windw end",
     "comparison: expected a number, but 'windw' is not defined"},
    {"mask = function(b, h, q, kv) return windw ~= q end",
     "a traced number is compared with 'windw', which is not defined"},
    {"mask = function(b, h, q, kv) local w = windw or 4\n"
     "return q ~= nil and q - kv < w end",
     NULL},
    {"mask = function(b, h, q, kv) return q >= nil end",
     "comparison: expected a number, got nil (is a name misspelt?)"},
    {"mask = function(b, h, q, kv) return type(q) == 'number' and "
     "math.type(q) == 'integer' and tonumber(q) >= math.tointeger(kv) end",
     NULL},
    {"score = function(s) return s + (math.type(s) == 'float' and 1 or 2) end",
     NULL},
    {"score = function(s) return math.tointeger(s) end",
     "math.tointeger of a traced float; use // or math.floor"},
    {"mask = function(b, h, q, kv) return 0 <= q - kv <= 5 end", chained},
    {"mask = function(b, h, q, kv) return (q >= kv) & (q < kv + 5) end",
     bitwise},
    {"mask = function(b, h, q, kv) return ~(q >= kv) end", bitwise},
    {"mask = function(b, h, q, kv) return (q > kv and true) + 1 > 1 end",
     "attempt to perform arithmetic on a boolean value; x and 1 or 0 makes a "
     "number of it"},
    {"mask = facc.mods.causal()",
     "facc.mods:69: attempt to compare two nil values (a mod is given as it "
     "is: mask_mod = facc.mods.causal)"},
    {"local t = {} mask = function(b, h, q, kv) return t.low <= t.high end",
     "attempt to compare two nil values"},
    {"mask = facc.mods.sliding_window",
     "the function must return true or false, got a function; one that makes "
     "a mod, as facc.mods.sliding_window(100), is called"},
    {"score = facc.mods.softcap",
     "result: expected a number, got a function; one that makes a mod, as "
     "facc.mods.sliding_window(100), is called"},
    /* results */
    {"score = function(s, b, h, q, kv)\nif q >= kv then return s end end",
     "no value is returned on one path (after the comparison in line 4)"},
    {"score = function(s) end", "the function returns no value"},
    {"score = function(s, b, h, q, kv) return q >= kv end",
     "the function must return a number, got a boolean"},
    {"mask = function(b, h, q, kv) return kv % 2 end", wants_bool},
    {"mask = function(b, h, q, kv)\nif q >= kv then return true end end",
     "no value is returned on one path (after the comparison in line 4)"},
    {"score = function(s) return {} end",
     "result: expected a number, got a table"},
    {"score = function(s, b, h, q) return t2[q] end",
     "the function must return a number, got tensor 't2' with 1 of its 2 "
     "indices"},
    {"mask = function(b, h, q, kv) if kv % 2 then return true end return "
     "false end",
     NULL}, /* the lint warns */
    {"score = function(s) return 7 end", NULL},
    /* tensors */
    {"score = function(s, b, h, q) return s + t2[q] end",
     "+: tensor 't2' is used with 1 of its 2 indices"},
    {"score = function(s, b, h, q) return s + tb[q / 2] end", float_index},
    {"score = function(s, b, h, q) return s + tb[2.5] end", float_index},
    {"score = function(s, b, h, q) return s + tb[2.0] + tb(q) + t2[q][1] + "
     "t2(q)(1) + t2(q, 1) end",
     NULL},
    {"score = function(s, b, h, q) return s + tb(q, 1) end",
     "tensor 'tb' takes 1 index (line 1), got more"},
    {"score = function(s, b, h, q) return s + tb[q][1] end",
     "a traced number is indexed (more indices than the tensor has "
     "dimensions?)"},
    {"score = function(s, b, h, q) return s + tb.data[q] end",
     "tensor 'tb' has no field 'data'; its indices are integers"},
    {"score = function(s) tb[1] = 3 return s end",
     "captured tensors are read-only"},
    {"score = function(s) return s * t0 + t0 / 2 + math.exp(t0) + t0() end",
     NULL},
    {"score = function(s) if t0 > 0 and t0 ~= 1 then return s end return s + "
     "t0 end",
     NULL},
    {"score = function(s) return t0 end", NULL},
    {"score = function(s, b, h, q) return s + tb[ti[ti[q]]] end", NULL},
    {"score = function(s, b, h, q) return s + tb[bb[q]] end",
     "index: expected a number, got a boolean; x and 1 or 0 makes one of "
     "it"},
    {"score = function(s, b, h, q) return s + bb[q] end",
     "+: expected a number, got a boolean; x and 1 or 0 makes one of it"},
    {"mask = function(b, h, q, kv) return bb[kv] == 1 end",
     "a boolean is compared with a number, which it never equals; a bool "
     "tensor gives true or false: write x or not x"},
    {"mask = function(b, h, q, kv) return q ~= (bb[q] and kv > 3) end",
     "a boolean is compared with a number, which it never equals; a bool "
     "tensor gives true or false: write x or not x"},
    {"mask = function(b, h, q, kv) return flags[q] end",
     "the function must return true or false, got tensor 'flags' with 1 of "
     "its 2 indices"},
    {"local on = facc.tensor('on', 'bool', {}) score = function(s, b, h, q, "
     "kv) local x = on if not x then return s end return facc.where(on, s, 2 "
     "* s) + (x and on and 1 or 0) end",
     NULL},
    {"score = function(s, b, h, q) local t = facc.tensor('t', 'f32', {1}) "
     "return s end",
     "facc.tensor is called inside of a mod; declare it before"},
    {"mask = function(b, h, q, kv) return tb == ti or q >= kv end", NULL},
    {"mask = function(b, h, q, kv) return tb == q end",
     "==: tensor 'tb' is used with 0 of its 1 indices"},
    {"mask = function(b, h, q, kv) return t2[q] == t2[kv] end",
     "==: tensor 't2' is used with 1 of its 2 indices"},
    {"mask = function(b, h, q, kv) return bb[q] == true and bb[kv] ~= nil end",
     NULL},
    {"local b0 = facc.tensor('b0', 'bool', {})\nlocal on = b0 and 1 or 2 "
     "mask = function(b, h, q, kv) return b0 ~= nil and (q >= kv) == b0 end",
     NULL},
    {"score = function(s, b, h, q) return tb and t2 and s + tb[q] or s end",
     NULL},
    /* arithmetic */
    {"score = function(s) return s & 1 end", "'&' needs integers, got a float"},
    {"score = function(s, b, h, q) return s + (q & 3.0) end", NULL},
    {"score = function(s, b, h, q) return s + (q & 3.5) end",
     "'&' needs integers, got a float"},
    {"score = function(s, b, h, q) return s + q // 0 end",
     "integer '//' by zero"},
    {"score = function(s, b, h, q) return s + q % 0 end",
     "integer '%' by zero"},
    {"mask = function(b, h, q, kv) return q * kv * q > 7 end",
     "integer arithmetic leaves 64 bits (positions and sizes count as up to "
     "2^31 - 1, i64 values as within 2^60); bound an operand by & or "
     "facc.clamp, or "
     "make it a float by facc.float"},
    {"mask = function(b, h, q, kv) return facc.clamp(q, 0, 4095) * kv * "
     "math.min(q, 4095) > 7 and facc.float(q) * kv * q > 7 end",
     NULL},
    {"score = function(s, b, h, q) return s + q // 0.0 end", NULL},
    {"score = function(s, b, h, q) return s + (q // 3.0) + (q % 2.5) + (q // "
     "3) end",
     NULL},
    {"score = function(s, b, h, q) return s + ((q * 2654435761) >> 16) % 7 "
     "end",
     NULL},
    {"score = function(s) return math.fmod(s, 2) end",
     "math.fmod is not there for traced values; use %, which rounds down, or "
     "x - y * facc.floor(x / y)"},
    {"score = function(s) return math.fmod(1, s) end",
     "math.fmod is not there for traced values; use %, which rounds down, or "
     "x - y * facc.floor(x / y)"},
    {"score = function(s) return (math.modf(s)) end",
     "math.modf is not there for traced values; use // 1, % 1 or facc.floor"},
    {"score = function(s, b, h, q) return s + (math.ult(q, h) and 1 or 0) end",
     "math.ult is not there for traced values; use <"},
    {"score = function(s) return math.rad(s) end",
     "math.rad is not there for traced values; multiply by math.pi / 180"},
    {"score = function(s) return math.deg(t0) end",
     "math.deg is not there for traced values; multiply by 180 / math.pi"},
    {"score = function(s) return math.atan(s, 1) end",
     "math.atan is not there for traced values"},
    {"score = function(s) return s + math.fmod(5, 3) + math.rad(180) + "
     "math.atan(1, 2) end",
     NULL},
    {"score = function(s) return facc.tanhh(s) end",
     "facc has no field 'tanhh'"},
    {"score = function(s) return facc.exp() end",
     "exp: expected a number, got nothing"},
    {"score = function(s) return facc.silu(s) + facc.gelu(s) + "
     "math.relu(s) + facc.gelu_tanh(s) end",
     NULL},
    {"score = function(s) table.insert(nil, 1) return s end",
     "bad argument #1 to 'insert' (table expected, got nil)"},
    {"score = function(s) return s + ('x'):byte({}) end",
     "bad argument #1 to 'byte' (number expected, got table)"},
    {"score = function(s) return s + #('x'):rep({}) end",
     "bad argument #1 to 'rep' (number expected, got table)"},
    {"score = function(s) return s + math.exp({}) end",
     "bad argument #1 to 'exp' (number expected, got table)"},
    /* comparisons */
    {"mask = function(b, h, q, kv) return kv == 3.0 or kv == 4.5 or kv < 2.5 "
     "or kv >= 2e9 or kv ~= kv end",
     NULL},
    {"mask = function(b, h, q, kv) return q < math.huge and kv > -math.huge "
     "and q ~= 0/0 and not (q < 0/0) end",
     NULL},
    {"score = function(s) return s ~= s and 0 or s end", NULL},
    {"mask = function(b, h, q, kv) return q ~= nil and (q == {}) == false "
     "and q >= kv end",
     NULL},
    {"mask = function(b, h, q, kv) return math.max(q, kv) == q end", NULL},
    {"mask = function(b, h, q, kv) local t = {q, kv, 5} table.sort(t) return "
     "t[1] == 5 end",
     NULL},
    {"mask = function(b, h, q, kv) local function f(n) return n < 100 and f(n "
     "+ 1) or q >= kv end return f(0) end",
     NULL},
    {"local wide = w > 5 mask = function(b, h, q, kv) return wide end",
     "a traced value is compared outside of a mod, where it has no value yet; "
     "compare it inside of score_mod or mask_mod"},
    /* what the sandbox lacks */
    {"mask = function(b, h, q, kv) return pcall(function() return q end) end",
     "attempt to call a nil value (global 'pcall')"},
    {"mask = function() return coroutine.wrap(print) end",
     "attempt to index a nil value (global 'coroutine')"},
    {"mask = function() return setmetatable({}, {}) end",
     "attempt to call a nil value (global 'setmetatable')"},
    {"mask = function(b, h, q) return getmetatable(q) end",
     "attempt to call a nil value (global 'getmetatable')"},
    {"mask = function(b, h, q, kv) return rawequal(q, kv) end",
     "attempt to call a nil value (global 'rawequal')"},
    {"mask = function() return math.random() < 0.5 end",
     "math has no 'random'"},
    {"mask = function(b, h, q, kv) return math.foo == q end",
     "math has no 'foo'"},
    {"mask = 'q == math.foo'", "math has no 'foo'"},
    {"mask = function(b, h, q, kv) return table.n ~= q end",
     "table has no 'n'"},
    {"mask = function(b, h, q, kv) return math[1] ~= q end",
     "math has no field of type a number"},
    {"mask = function(b, h, q, kv) return math.pi * 100 > q and "
     "math.sigmoid(q) > 0.5 end",
     NULL},
    {"mask = function() return ('x'):find('x') end", "string has no 'find'"},
    {"mask = function() return os.time() == io.stdout end",
     "attempt to index a nil value (global 'os')"},
    {"mask = function(b, h, q, kv) local s = ('x'):rep(3, '-') return #s == 5 "
     "and s == 'x-x-x' and q >= kv end",
     NULL},
    {"mask = function(b, h, q, kv) return #('x'):rep(1 << 40) > 0 end",
     "the script needs more than 64 MiB of memory"},
    {"mask = function(b, h, q, kv) return #(''):rep(1 << 62) == 0 and q > kv "
     "end",
     NULL},
    {"score = function(s) return s + require('os').time() end",
     "only 'facc' and 'facc.mods' can be required, not 'os'"},
    /* where and the reductions */
    {"mask = function(b, h, q, kv) return facc.where(q >= kv, true, false) "
     "end",
     NULL},
    {"score = function(s, b, h, q, kv) return facc.where(q, s, 0) end",
     "where: the condition must be a function or a boolean, got a traced "
     "number"},
    {"score = function(s, b, h, q, kv) return facc.where(q > kv, s, true) end",
     "where: the values must both be numbers or both booleans"},
    {"score = function(s, b, h, q, kv) return facc.where(q > kv, s) end",
     "where: expected a number, got nil (is a name misspelt?)"},
    {"score = function(s, b, h, q, kv) return s + facc.sum(q, function(k) "
     "return k end) end",
     "facc.sum: the count must be a plain integer, got a traced number"},
    {"score = function(s, b, h, q, kv) return s + facc.max(0, function(k) "
     "return k end) end",
     "facc.max of nothing"},
    {"score = function(s, b, h, q, kv) return s + facc.sum(0, function(k) "
     "return k end) + facc.max(3, function(k) return q + k end) + facc.min(1, "
     "2, q) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(0, function() return 1 "
     "end) or facc.all(0, function() return 1 end) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(2, function(k) return q "
     "end) end",
     wants_bool},
    {"mask = function(b, h, q, kv) return facc.any(4, function(i) return "
     "facc.all(4, function(j) return (q + i) % (j + 2) ~= 0 or (kv + j) % (i "
     "+ 2) == 0 end) end) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(100, function(i) return q "
     "// 50 == i and kv // 50 == (i * 7) % 40 end) end",
     NULL},
    {"score = function(s, b, h, q, kv) return s + facc.sum(64, function(i) "
     "return (q - kv) % (i + 2) == 0 and i + 1 or 0 end) end",
     NULL},
    {"score = function(s, b, h, q, kv) for i = 1, 40 do s = s + "
     "facc.where(function() return (q - kv) % (i + 1) == 0 end, i, 0) end "
     "return s end",
     NULL},
    /* limits */
    {"mask = function(b, h, q, kv) local n = 0\nfor i = 2, 15 do\nif q % i == "
     "kv % i then n = n + i end\nend\nreturn q * n % 7 > 2 and kv * n % 7 > 2 "
     "and q * n % 11 > 4 end",
     "more than 4096 paths: most comparisons fork in line 5; put the loop's "
     "body into facc.sum/any/all/max/min(n, f), or write "
     "facc.where(function() return c end, a, b)"},
    {"score = function(s, b, h, q, kv)\nfor i = 1, 13 do\nif (q - kv) % (i + "
     "1) == 0 then s = s + i end\nend return s end",
     "more than 4096 paths: most comparisons fork in line 5; put the loop's "
     "body into facc.sum/any/all/max/min(n, f), or write "
     "facc.where(function() return c end, a, b)"},
    {"score = function(s, b, h, q, kv)\nlocal i = 0\nwhile (q ~ i) < kv do i "
     "= i + 1 end\nreturn s + i end",
     "more than 512 comparisons on one path; use facc.sum, facc.any or "
     "facc.all for the loop"},
    /* vectors */
    {"score = function(s, b, h, q, kv) return s + facc.dot(rows[q], rows[kv]) "
     "+ facc.sum(rows[q]) + facc.max(rows[kv]) + #rows[q] + facc.sum({s, 1}) + "
     "facc.min({s, s * s}) + facc.dot({s, q}, {1, 2}) + facc.sum({}) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(flags[q]) or "
     "facc.all{q > kv, kv > 3} end",
     NULL},
    {"score = function(s, b, h, q, kv) return s + facc.dot(rows, rows[kv]) end",
     "facc.dot: tensor 'rows' has 0 of its 2 indices; all but the last are "
     "needed"},
    {"score = function(s, b, h, q, kv) return s + facc.dot(rows[q], 2) end",
     "facc.dot: expected a list of numbers or a tensor without its last "
     "index, got a number"},
    {"score = function(s, b, h, q, kv) return s + facc.dot(rows[q], {1, 2}) "
     "end",
     "facc.dot: the first vector has 6 elements, the second 2"},
    {"score = function(s, b, h, q, kv) return s + facc.sum(turned[0]) end",
     "facc.sum: the last dimension of tensor 'turned' must be declared as a "
     "number: its elements are known by then"},
    {"score = function(s, b, h, q, kv) return s + #turned[0] end",
     "the length of tensor 'turned' is not known while tracing: its dimension "
     "2 is declared by name; facc.size has the sizes of the call, facc.rank "
     "the number of dimensions"},
    {"score = function(s, b, h, q, kv) return s + facc.max({}) end",
     "facc.max of nothing"},
    {"score = function(s, b, h, q, kv) return s + facc.sum({s, q > kv}) end",
     "facc.sum: element 2 is a boolean, not a number"},
    {"mask = function(b, h, q, kv) return facc.any({q > kv, q}) end",
     "facc.any: element 2 is a traced number, not a boolean"},
    {"mask = function(b, h, q, kv) return facc.any(rows[q]) end",
     "facc.any: tensor 'rows' is not one of booleans"},
    {"score = function(s, b, h, q, kv) return s + facc.lookup({}, h) end",
     "facc.lookup: expected a list of values, got an empty one"},
    {"score = function(s, b, h, q, kv) return s + facc.lookup({1, 2}, tb) end",
     "facc.lookup: expected a number, got tensor"},
    {"score = function(s, b, h) return facc.sum(8 / 2, function(k) return k * "
     "s end) end",
     NULL},
    {"score = function(s, b, h) return facc.sum(2.5, function(k) return s end) "
     "end",
     "facc.sum: the count must be an integer from 0, got 2.5"},
    {"score = function(s, b, h, q, kv) return s + facc.clamp(s, 1) end",
     "clamp: expected a number, got nil"},
    /* numbers of tensors as conditions */
    {"mask = function(b, h, q, kv) return ti[b] and q > kv end", element},
    {"mask = function(b, h, q, kv) return not ti[b] end", element},
    {"mask = function(b, h, q, kv) return not ti[b] or q > kv end", element},
    {"mask = function(b, h, q, kv) return not(ti[b])or q > kv end", element},
    {"mask = function(b, h, q, kv) local x = ti[b] if x then return q > kv "
     "end return true end",
     element},
    {"mask = function(b, h, q, kv) return (q > kv and ti[b]) and true end",
     element},
    {"mask = function(b, h, q, kv) local x = q > kv and ti[b] or 3\n"
     "x = (q > 5 and ti[x]) or x return ti and w and x > kv end",
     NULL},
    /* comparisons that are never true */
    {"mask = function(b, h, q, kv) return bb == true end",
     "==: tensor 'bb' is used with 0 of its 1 indices"},
    {"mask = function(b, h, q, kv) return false ~= flags[q] end",
     "==: tensor 'flags' is used with 1 of its 2 indices"},
    {"mask = function(b, h, q, kv) return q == '5' end",
     "a traced number is compared with a string, which it never equals"},
    {"mask = function(b, h, q, kv) return q ~= nil and bb ~= nil end", NULL},
    /* parameters in another order */
    {"mask = function(q, kv) return q >= kv end",
     "mask_mod is called as (b, h, q, kv), but parameter 1 is named 'q'"},
    {"mask = function(score, b, h, q, kv) return q >= kv end",
     "mask_mod is called as (b, h, q, kv), but parameter 1 is named 'score'"},
    {"score = function(b, h, q, kv) return b end",
     "score_mod is called as (score, b, h, q, kv), but parameter 1 is named "
     "'b'"},
    {"score = function(s, batch, head, kv_idx, q_idx) return s end",
     "score_mod is called as (score, b, h, q, kv), but parameter 4 is named "
     "'kv_idx'"},
    {"score = function(s, b, h, q_idx, kv_idx) return s * q_idx end", NULL},
    {"mask = function(b, h, i, j, k) return i >= j end", NULL},
    /* sizes and lengths */
    {"mask = function(b, h, q, kv) return q + facc.size.kv - facc.size.q >= "
     "kv and kv < facc.len.kv(b) and q < facc.len.q(b) and h < facc.size.H "
     "and b < facc.size.B and facc.size.Hkv > 0 end",
     NULL},
    {"score = function(s) return s + facc.size.k end",
     "facc.size has B, H, Hkv, q, kv, D and Dv, not 'k'"},
    {"score = function(s) return s + facc.len.q(s) end",
     "facc.len.q: the sequence must be an integer"},
    /* the standard mods */
    {"score = function(s) return s + facc.mods.causall end",
     "facc.mods has no 'causall'"},
    {"mask = facc.mods.sliding_window('x')",
     "facc.mods.sliding_window: expected a number, got string"},
    {"mask = facc.mods.and_masks(facc.mods.causal, nil, 3)",
     "facc.mods.and_masks: expected functions, got nil"},
    {"mask = facc.mods.and_masks(facc.mods.causal_bottom_right, "
     "facc.mods.or_masks(facc.mods.sliding_window(w), "
     "facc.mods.prefix_lm(ti)), facc.mods.not_mask(facc.mods.document(ti)), "
     "facc.mods.dilated(64, 3), facc.mods.longformer(9, 2), "
     "facc.mods.longformer(9, bb), facc.mods.sinks_window(4, 9), "
     "facc.mods.block_diagonal(96), facc.mods.natten(32, 64, 7))",
     NULL},
    {"score = facc.mods.compose(facc.mods.alibi(), facc.mods.alibi(tb), "
     "facc.mods.softcap(20), facc.mods.softcap_fast(t0), "
     "facc.mods.relative_bias(tb, 100), facc.mods.relative_bias(t2, 100), "
     "facc.mods.t5_bias(t2))",
     NULL},
};

START_TEST(trap)
{
    const struct trap *t = &traps[_i];
    struct load l;
    load_mod(&l, t->body);
    char *end = strchr(l.diag.message, '\n');
    if (end)
        *end = '\0';
    if (t->message)
        ck_assert_msg(!l.ok && strcmp(l.diag.message, t->message) == 0,
                      "%s\n  want: %s\n  got:  %s", t->body, t->message,
                      l.ok ? "no error" : l.diag.message);
    else
        ck_assert_msg(l.ok, "%s\n  %d: %s", t->body, l.diag.line,
                      l.diag.message);
    if (!l.ok) {
        ck_assert_int_eq(l.diag.status, DIAG_SCRIPT);
        ck_assert_str_eq(l.diag.file, "t.lua");
        ck_assert_int_ge(l.diag.line, 3);
    }
    unload(&l);
}
END_TEST

/* --- whole files -------------------------------------------------- */

struct file {
    const char *text;
    int line;
    const char *message; /* the whole message */
};

static const struct file files[] = {
    {"", 1, "the file must return facc.attention{...}, but it returns nothing"},
    {"local facc = require 'facc'\nfacc.attention {}\n", 2,
     "the file must return facc.attention{...}, but it returns nothing"},
    {"return 7", 1,
     "the file must return facc.attention{...}, but it returns a number"},
    {"return {}", 1,
     "the file must return facc.attention{...}, but it returns a table"},
    {"return function() end", 1,
     "the file must return facc.attention{...}, but it returns a function"},
    {"local x = = 1", 1, "unexpected symbol near '='"},
    {"\n\nreturn 'abc", 3, "unfinished string near <eof>"},
    {"return facc.attention {}", 1,
     "attempt to index a nil value (global 'facc')\n"
     "stack traceback:\n\tt.lua:1: in main chunk"},
    {"local __eq = 1\nreturn __eq", 1,
     "the names __eq, __ne, __k and __c are reserved"},
    {"local facc = require 'facc'\nreturn facc.attention {\n  mask = 1 }", 2,
     "facc.attention: unknown key 'mask'; known are score_mod and mask_mod"},
    {"local facc = require 'facc'\nreturn facc.attention { 1 }", 2,
     "facc.attention: keys are score_mod and mask_mod, not a number"},
    {"local facc = require 'facc'\nreturn facc.attention()", 2,
     "facc.attention takes a table { score_mod = …, mask_mod = … }, got "
     "nothing"},
    {"local facc = require 'facc'\nreturn facc.attention { score_mod = 3 }", 2,
     "score_mod must be a function or an expression in a string, got a "
     "number"},
    {"local facc = require 'facc'\n\nlocal t = facc.tensor('t', 'f31', {})", 3,
     "facc.tensor 't': unknown type 'f31'; known are f32 f16 bf16 f8 e4m3 "
     "e5m2 i8 u8 i16 i32 i64 bool"},
    {"local facc = require 'facc'\nlocal t = facc.param('t', 'bool')", 2,
     "facc.param 't': unknown type 'bool'; known are i32 i64 f32"},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', {'S'})", 2,
     "facc.tensor 't': dimension 1 must be an integer from 0 on or one of "
     "\"B\" "
     "\"H\" \"Hkv\" \"q\" \"kv\" \"any\""},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', {2 ^ 3, 5 "
     "/ 2})",
     2,
     "facc.tensor 't': dimension 2 must be an integer from 0 on or one of "
     "\"B\" "
     "\"H\" \"Hkv\" \"q\" \"kv\" \"any\""},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', {4, -1})",
     2,
     "facc.tensor 't': dimension 2 must be an integer from 0 on or one of "
     "\"B\" "
     "\"H\" \"Hkv\" \"q\" \"kv\" \"any\""},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', "
     "{1,2,3,4,5,6})",
     2, "facc.tensor 't': at most 5 dimensions"},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', 'H')", 2,
     "facc.tensor 't': the dimensions must be a table such as { \"H\", 4 }, "
     "got a string"},
    {"local facc = require 'facc'\nlocal t = facc.tensor('a b', 'f32', {})", 2,
     "facc.tensor: 'a b' is not a name (letters, digits and _, at most 63)"},
    {"local facc = require 'facc'\nfacc.tensor('t', 'f32', {})\n"
     "facc.param('t', 'i32')",
     3, "'t' is declared twice"},
    {"local facc = require 'facc'\nlocal flag = facc.tensor('flag', 'bool', "
     "{})\nlocal on = flag and 1 or 2\nreturn facc.attention { mask_mod = "
     "function(b, h, q, kv) return q >= kv + on end }",
     2,
     "tensor 'flag' is never read: outside of the mods it has no value, and a "
     "condition takes it for true"},
    {"local facc = require 'facc'\nlocal keep = facc.tensor('keep', 'bool', "
     "{'q', 'kv'})\nreturn facc.attention { mask_mod = function(b, h, q, kv)\n"
     "if keep then return q >= kv end return false end }",
     4,
     "tensor 'keep' is used as a condition with 0 of its 2 indices, which "
     "takes it for true"},
    {"local facc = require 'facc'\nlocal keep = facc.tensor('keep', 'bool', "
     "{'q', 'kv'})\nreturn facc.attention { mask_mod =\n"
     "'keep[q][kv] and not (q >= kv and keep)' }",
     3,
     "tensor 'keep' is used as a condition with 0 of its 2 indices, which "
     "takes it for true"},
    {"local facc = require 'facc'\nreturn facc.attention {\n"
     "mask_mod = casual }",
     2, "facc.attention: 'casual' is not defined"},
    {"local facc = require 'facc'\nlocal keep = facc.tensor('keep', 'bool', "
     "{'q', 'kv'})\nreturn facc.attention { mask_mod = function(b, h, q, kv)\n"
     "return keep[q] and q >= kv end }",
     4,
     "tensor 'keep' is used as a condition with 1 of its 2 indices, which "
     "takes it for true"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = 'q >=' "
     "}",
     2, "mask_mod:1: unexpected symbol near <eof>"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = 'q >= "
     "kv end' }",
     2, "mask_mod:1: <eof> expected near 'end'"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = "
     "'true), (false' }",
     2, "mask_mod:1: <eof> expected near ')'"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = "
     "'true;' }",
     2, "mask_mod must be one expression, which gives one value"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = "
     "'q >= kv\\0' }",
     2, "mask_mod has a NUL character"},
    {"local facc = require 'facc'\nreturn facc.attention {\nscore_mod = "
     "'score + slopes[h]' }",
     2,
     "unknown name 'slopes'; known are score, b, h, q, kv, and the functions "
     "of Lua, math and facc"},
    /* in the line of the call, although it is a tail call */
    {"local facc = require 'facc'\nreturn facc.attention { score_mod = "
     "function(s)\n  local x = 'x'\n  return facc.relu(x)\nend }",
     4, "max: expected a number, got a string"},
    {"local facc = require 'facc'\nreturn facc.attention { mask_mod = "
     "function(b, h, q, kv)\n  return q > 3 and\n    facc.mods.causal(b, h, q)"
     "\nend }",
     4, "comparison: expected a number, got nil (is a name misspelt?)"},
    {"local facc = require 'facc'\n"
     "local function deep(x) return x + nothing.here end\n"
     "local function helper(x)\n  local y = deep(x)\n  return y\nend\n"
     "return facc.attention { score_mod = function(s)\n"
     "  local r = helper(s)\n  return r\nend }",
     2,
     "attempt to index a nil value (global 'nothing')\n"
     "stack traceback:\n"
     "\tt.lua:2: in function 'deep'\n"
     "\tt.lua:4: in function 'helper'\n"
     "\tt.lua:8: in score_mod"},
    {"local facc = require 'facc'\nreturn facc.attention { score_mod = "
     "function(s)\n  return s + facc.sum(3, function(k)\n    return k + "
     "nothing.x\n  end)\nend }",
     4,
     "attempt to index a nil value (global 'nothing')\n"
     "stack traceback:\n"
     "\tt.lua:4: in function <line 3>\n"
     "\tt.lua:3: in score_mod"},
    {"local facc = require 'facc'\nerror('out of ideas')", 2,
     "out of ideas\nstack traceback:\n\tt.lua:2: in main chunk"},
    {"local facc = require 'facc'\nerror({})", 2,
     "the error object is a table\nstack traceback:\n\tt.lua:2: in main "
     "chunk"},
    {"local facc = require 'facc'\nassert(1 == 2, 'no')", 2,
     "no\nstack traceback:\n\tt.lua:2: in main chunk"},
};

START_TEST(file)
{
    const struct file *f = &files[_i];
    struct load l;
    load(&l, f->text);
    ck_assert_msg(!l.ok, "%s", f->text);
    ck_assert_str_eq(l.diag.message, f->message);
    ck_assert_msg(l.diag.line == f->line, "%s\n  line %d", f->text,
                  l.diag.line);
    ck_assert_str_eq(l.diag.file, "t.lua");
    unload(&l);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("frontend");
    tcase_add_loop_test(c, trap, 0, sizeof traps / sizeof *traps);
    tcase_add_loop_test(c, file, 0, sizeof files / sizeof *files);
    return run_case("frontend", c);
}
