-- Claims objects for their deletion: those that are still noted as unused for the grace. The notes are removed.
--
-- KEYS[1] unused  hash     since when, ms, by the name of the object
-- ARGV[1] grace   integer  ms
-- ARGV[2...] names string  the names of the objects
--
-- returns {name ...} of those that are to be deleted
-- errors  none
-- source  none in Node
-- @include time_ms.lua

local unused = KEYS[1]
local grace = ARGV[1]
local names = ARGV

local now, claimed = server_time_ms(), {}
for at = 2, #names do
  local since = tonumber(redis.call('HGET', unused, names[at]))
  if since and now - since >= grace + 0 then
    redis.call('HDEL', unused, names[at])
    claimed[#claimed + 1] = names[at]
  end
end
return claimed
