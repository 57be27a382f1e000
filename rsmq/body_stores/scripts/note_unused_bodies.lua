-- Says for how long objects are in no message, and notes the time of those that are found so first.
--
-- KEYS[1] unused  hash     since when, ms, by the name of the object
-- ARGV[1] keep    integer  ms that the record lives from now; '0' notes nothing
-- ARGV[2...] names string  the names of the objects
--
-- returns {ms ...} in the order of the names; 0 for those without a note
-- errors  none
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua

local unused = KEYS[1]
local keep = ARGV[1]
local names = ARGV

local now = math.floor(server_time_us() / 1000)
local ages = {}
for at = 2, #names do
  local since = tonumber(redis.call('HGET', unused, names[at]))
  if not since and keep ~= '0' then
    redis.call('HSET', unused, names[at], digits(now))
  end
  ages[at - 1] = math.max(now - (since or now), 0)
end
if keep ~= '0' and #names > 1 then
  redis.call('PEXPIRE', unused, keep)
end
return ages
