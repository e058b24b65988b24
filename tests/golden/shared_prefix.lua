local facc = require "facc"
local doc, first = facc.tensor("doc", "i32", { "kv" }), facc.tensor("first", "i32", { 64 })
local prefix = facc.tensor("prefix", "i32", { 64 })
local begin, finish = facc.tensor("begin", "i32", { 16 }), facc.tensor("finish", "i32", { 16 })
return facc.attention {
  mask_mod = function(b, h, q, kv) -- answers share their question
    local d = doc[q]
    local p = prefix[d]
    return (kv >= first[d] and q >= kv) or (d ~= 2 * p and begin[p] <= kv and kv < finish[p])
  end,
}
