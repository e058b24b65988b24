-- Ways out of the sandbox: what is not there, and what of the rest could lead
-- to it.

-- Every name of Lua 5.4's libraries that is to be absent. In a global the
-- value is nil; in a library even asking is an error.
for name in ("io os debug load loadstring loadfile dofile coroutine package utf8 rawequal rawget rawset " ..
    "rawlen setmetatable getmetatable pcall xpcall collectgarbage print warn arg"):gmatch "%S+" do
  case(name .. " is not there", before("assert(" .. name .. " == nil and _G." .. name .. " == nil and _G['" .. name .. "'] == nil)"), causal)
  case(name .. " is not there in an expression", 'return require "facc".attention { mask_mod = "' .. name .. ' == nil" }',
    fails(1, "unknown name '" .. name .. "'"))
end
for field in ("string.dump string.find string.match string.gmatch string.gsub string.pack string.packsize string.unpack " ..
    "table.move math.random math.randomseed facc.load facc.io facc._G facc.mods.io"):gmatch "%S+" do
  local library, name = field:match "(.*)%.(.*)"
  case(field .. " is not there", before("\nlocal x = " .. field), fails(6, library .. " has no "))
end

case("os.execute", before "os.execute('true')", fails(5, "attempt to index a nil value (global 'os')"))
case("os, in a mod", mask "os.exit(0)", fails(6, "attempt to index a nil value (global 'os')"))
case("load", before "load('return 1')()", fails(5, "attempt to call a nil value (global 'load')"))
case("getmetatable of a string", before [[getmetatable("").__index = nil]], fails(5, "attempt to call a nil value (global 'getmetatable')"))
case("the string library through a string", before [[assert(("").__index == nil)]], fails(5, "string has no '__index'"))
case("dump through a string", before [[local x = (""):dump(print)]], fails(5, "string has no 'dump'"))
case("find through a string", before [[local a = ("x"):find(("x?"):rep(50))]], fails(5, "string has no 'find'"))
case("gsub with a callback", before [[local x = ("x"):gsub(".", function() end)]], fails(5, "string has no 'gsub'"))
case("_G of _G", before "assert(_G._G == _G and _G._G._G.os == nil)", causal)
case("_ENV", before "assert(_ENV == _G and _ENV.io == nil)", causal)
case("_ENV made anew", before "do local _ENV = { facc = facc } facc.x = io end\nlocal _ENV = { assert = assert }\nassert(facc ~= nil and require == nil)", causal)
case("an empty _ENV in a mod", mask "local _ENV = nil return q >= kv", causal)
case("an _ENV of numbers", mask "local _ENV = 5 return x >= kv", fails(6, "attempt to index a number value (local '_ENV')"))
case("every global is known", before [[
local known = " _G _VERSION assert error ipairs next pairs select tonumber tostring type require math string table "
for k, v in next, _G do
  local ok = false
  for i = 1, #known do ok = ok or known:sub(i, i + #k + 1) == " " .. k .. " " end
  assert(ok, k)
end]], causal)
case("require of a file", before 'require "os"', fails(5, "only 'facc' and 'facc.mods' can be required, not 'os'"))
case("require of a path", before 'require "/etc/passwd"', fails(5, "only 'facc' and 'facc.mods' can be required"))
case("require of a name with a NUL", before 'require "facc\\0.so"', fails(5, "only 'facc' and 'facc.mods' can be required"))
case("require of nothing", before 'require()', fails(5, "only 'facc' and 'facc.mods' can be required, not ''"))
case("require of a table", before 'require {}', fails(5, "only 'facc' and 'facc.mods' can be required, not ''"))
case("package", before "local p = package.loaded", fails(5, "attempt to index a nil value (global 'package')"))
case("bytecode", string.dump(function() return 1 end), fails(1, "attempt to load a binary chunk (mode is 't')"))
case("bytecode behind a BOM", "\xef\xbb\xbf" .. string.dump(function() return 1 end), fails(1, "attempt to load a binary chunk (mode is 't')"))
case("bytecode behind a shebang", "#!/usr/bin/facc\n" .. string.dump(function() return 1 end), fails(2, "unexpected symbol near '<\\27>'"))
case("bytecode as an expression", 'return require "facc".attention { mask_mod = "\\27Lua" }', fails(1, "unexpected symbol near '<\\27>'"))
case("an expression that closes its function", 'return require "facc".attention { mask_mod = "true end, os.exit() --" }', fails(1, "<eof> expected near 'end'"))
case("an expression that is a statement", 'return require "facc".attention { mask_mod = "true; while true do end" }', fails(1, "<eof> expected near 'while'"))
case("an expression with a comment", 'return require "facc".attention { mask_mod = "q >= kv --" }', causal)
case("an expression with an open comment", 'return require "facc".attention { mask_mod = "q >= kv --[[" }', fails(1, "unfinished long comment"))
case("an expression with a long bracket", 'return require "facc".attention { mask_mod = "q >= kv and #[[" }', fails(1, "unfinished long string"))
case("an expression with its own function", 'return require "facc".attention { mask_mod = "(function() return q >= kv end)()" }', causal)
case("the reserved names", before "\nlocal __eq = 1", fails(6, "the names __eq, __ne, __k and __c are reserved"))
case("the reserved names in a global", before "_G['__eq'] = 5 _G['__c'] = 5 _ENV['__k'] = 1 assert(1 == 1.0 and not (1 ~= 1))", causal)
-- the values that the rewriting of == needs come by the file's varargs
case("a sentinel in arithmetic", "local e = ...\nlocal x = 5 | e", fails(2, "a part of a comparison is used as a value"))
case("a sentinel of a table", "local e = ...\nlocal x = {} | e", fails(2, "a part of a comparison is used as a value"))
case("half of a comparison", "local e = ...\nlocal x = e | 1\nlocal y = 5 < x", fails(3, "a part of a comparison is used as a value"))
case("half of a comparison, sorted", "local e = ...\nlocal x = e | 1\ntable.sort { x, 5, {} }", fails(3, "a part of a comparison is used as a value"))
case("two halves of a comparison", "local e = ...\nlocal x, y = e | 1, e | 2\nlocal z = x < y return z", fails(3, "the file must return facc.attention{...}, but it returns a boolean"))
case("a sentinel as a value", "local e, n, k, c = ...\nlocal x = e == e and k(1) + c(2)\nlocal y = e + 1", fails(3, "attempt to perform arithmetic on a facc.eq value"))
-- an address would be another in every run, and tell where to write
for _, x in ipairs { "{}", "assert", "facc", "(function() end)" } do
  case("the address of " .. x, before("assert(tostring(" .. x .. ") == type(" .. x .. ") and ('%s%%%s'):format(1, " .. x .. ") == '1%' .. type(" .. x .. "))"), causal)
end
case("the address of a sentinel", "local e = ...\nlocal x = tostring(e) .. ('%s'):format(e)\nerror(x, 0)", fails(3, "userdatauserdata"))
case("%p", before "\nlocal x = string.format('%s%%%p', 1, {})", fails(6, "string.format has no %p"))
case("%p behind a NUL", before "\nlocal x = ('\\0%s%-20p'):format(1, {})", fails(6, "string.format has no %p"))
case("%p of a string", before "\nlocal x = ('%p'):format('x')", fails(6, "string.format has no %p"))
case("a format that ends", before "assert(('%%'):format() == '%')\nlocal x = ('%'):format({})", fails(6, "invalid conversion '%' to 'format'"))
case("%d of a table", before "\nlocal x = ('%d'):format({})", fails(6, "number expected, got table"))
