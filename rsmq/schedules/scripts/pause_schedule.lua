-- Pauses a schedule, or resumes it with its next tick.
--
-- KEYS[1] schedules   hash        definitions by name, and their states
-- KEYS[2] due         sorted set  names by the ms of the next attempt; +inf = none
-- ARGV[1] name        string      the schedule
-- ARGV[2] definition  bytes       the definition that the caller has read, to resume; '' pauses
-- ARGV[3] tick        integer     ms of the next tick, to resume
-- ARGV[4] at          integer     ms of the attempt for that tick
--
-- returns 1 it has changed, 0 it was paused or was not, -1 there is no such schedule, -2 another definition is stored
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua

local schedules, due = KEYS[1], KEYS[2]
local name, definition, tick, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = redis.call('HMGET', schedules, name, name .. ':paused')
if not stored[1] then
  return -1
elseif (definition == '') == (stored[2] ~= false) then
  return 0
elseif definition == '' then
  allow_when_full(due)
  redis.call('HSET', schedules, name .. ':paused', digits(server_time_ms()))
  redis.call('ZADD', due, '+inf', name)
  return 1
elseif definition ~= stored[1] then
  return -2
end
allow_when_full(due)
redis.call('HDEL', schedules, name .. ':paused', name .. ':failure')
redis.call('HSET', schedules, name .. ':tick', tick)
redis.call('ZADD', due, at, name)
return 1
