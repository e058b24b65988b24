local facc = require "facc"

return function(b, h, q, kv) return q >= kv end
