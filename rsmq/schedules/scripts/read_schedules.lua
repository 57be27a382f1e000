-- Reads schedules and their states.
--
-- KEYS[1] schedules  hash        definitions by name, and their states
-- KEYS[2] due        sorted set  names by the ms of the next attempt; +inf = none
-- ARGV[1...] names   string      the schedules; none = all
--
-- returns {ms now, name, the ms of the next attempt or nil, definition or nil, tick, paused, last, failure, name ...}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include names.lua

local schedules, due = KEYS[1], KEYS[2]
local names = ARGV

if #names == 0 then
  names = schedule_names(due)
end
local found = {digits(server_time_ms())}
for each = 1, #names do
  local name = names[each]
  local state = redis.call('HMGET', schedules, name, name .. ':tick', name .. ':paused', name .. ':last',
    name .. ':failure')
  local at = #found
  found[at + 1], found[at + 2] = name, redis.call('ZSCORE', due, name)
  for field = 1, 5 do
    found[at + 2 + field] = state[field]
  end
end
return found
