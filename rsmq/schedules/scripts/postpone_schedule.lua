-- Records why a schedule could not be fired, and postpones the next attempt. A name without a definition is removed.
--
-- KEYS[1] schedules   hash        definitions by name, and their states
-- KEYS[2] due         sorted set  names by the ms of the next attempt; +inf = none
-- ARGV[1] name        string      the schedule
-- ARGV[2] definition  bytes       the definition that the caller has read; '' = none
-- ARGV[3] tick        integer     ms of the tick that the caller has read; '' = none
-- ARGV[4] pause       integer     ms until the next attempt
-- ARGV[5] failure     string      the number of failures in a row, a blank, and the reason
--
-- returns 1 it is done, 0 it has changed since
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua

local schedules, due = KEYS[1], KEYS[2]
local name, definition, tick, pause, failure = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local now = server_time_ms()
local stored = redis.call('HMGET', schedules, name, name .. ':tick')
local score = redis.call('ZSCORE', due, name)
if not score or tonumber(score) > now or (stored[1] or '') ~= definition or (stored[2] or '') ~= tick then
  return 0
end
allow_when_full(due)
if definition == '' then
  redis.call('ZREM', due, name)
  redis.call('HDEL', schedules, name .. ':tick', name .. ':paused', name .. ':last', name .. ':failure')
  return 1
end
redis.call('HSET', schedules, name .. ':failure', digits(now) .. ' ' .. failure)
redis.call('ZADD', due, 'XX', digits(now + pause), name)
return 1
