-- Reads the schedules whose time has come.
--
-- KEYS[1] schedules  hash        definitions by name, and their states
-- KEYS[2] due        sorted set  names by the ms of the next attempt; +inf = none
-- ARGV[1] limit      integer     the number of schedules at most
--
-- returns {ms now, the ms of the next attempt of the others or '', name, definition or nil, tick or nil, failure or nil,
--   name ...}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local schedules, due = KEYS[1], KEYS[2]
local limit = ARGV[1]

local now = digits(server_time_ms())
local names = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', '0', limit)
local later = redis.call('ZRANGEBYSCORE', due, '(' .. now, '(+inf', 'WITHSCORES', 'LIMIT', '0', '1')
local found = {now, later[2] or ''}
for each = 1, #names do
  local name = names[each]
  local state = redis.call('HMGET', schedules, name, name .. ':tick', name .. ':failure')
  local at = #found
  found[at + 1], found[at + 2], found[at + 3], found[at + 4] = name, state[1], state[2], state[3]
end
return found
