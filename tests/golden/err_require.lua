local facc = require "facc"
local ffi = require "ffi"
