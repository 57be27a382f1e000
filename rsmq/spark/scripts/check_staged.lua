-- Counts the staged parts of a decision that are missing, before the decision is stored: the record of decisions is
-- in another cell, where decide_write.lua can't see them. Stores the staged parts of the queue for longer.
--
-- KEYS[1] staged        hash     messages by write, batch, attempt and part
-- ARGV[1] lifetime      integer  ms for which `staged` is stored at least
-- ARGV[2...] parts      strings  the names of the parts
--
-- returns the number of missing parts
-- errors  none
-- source  none in Node
-- @include lifetime.lua

local staged, lifetime = KEYS[1], ARGV[1]
local parts = ARGV

local missing = 0
for each = 2, #parts do
  missing = missing + 1 - redis.call('HEXISTS', staged, parts[each])
end
keep_for(staged, lifetime)
return missing
