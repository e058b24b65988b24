local facc = require "facc"
local page = facc.tensor("page", "i32", { "B", 128 })
return facc.attention {
  mask_mod = function(b, h, q, kv) -- a page table from physical to logical pages, -1: none
    local p = page[b][kv // 16]
    local j = p * 16 + kv % 16
    return p >= 0 and q >= j and q - j <= 100
  end,
}
