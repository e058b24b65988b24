local facc = require "facc"
local seed = os.time()

return facc.attention {}
