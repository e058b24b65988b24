local facc = require "facc"
local __eq = function(a, b) return a == b end
