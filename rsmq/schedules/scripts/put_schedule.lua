-- Stores the definition of a schedule in place of the expected one.
--
-- KEYS[1] schedules   hash        definitions by name, and their states
-- KEYS[2] due         sorted set  names by the ms of the next attempt; +inf = none
-- ARGV[1] name        string      the schedule
-- ARGV[2] expected    bytes       the definition that is replaced; '' = none
-- ARGV[3] definition  bytes       the new one
-- ARGV[4] tick        integer     ms of its next tick
-- ARGV[5] at          integer     ms of the attempt for that tick
-- ARGV[6] keep        string      '1' keeps the stored tick, if there is one
-- ARGV[7] limit       integer     the largest number of schedules
-- ARGV[8] last        string      the last tick, as the caller has read it; the next one is later
--
-- returns 1 it is stored, 0 it has been changed or fired since the caller has read it, 2 there are too many
-- errors  none
-- source  none in Node
-- @include names.lua

local schedules, due = KEYS[1], KEYS[2]
local name, expected, definition, tick = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local at, keep, limit, last = ARGV[5], ARGV[6], ARGV[7], ARGV[8]

local stored = redis.call('HMGET', schedules, name, name .. ':tick', name .. ':paused', name .. ':failure', name .. ':last')
if (stored[1] or '') ~= expected or stored[1] and (stored[5] or '') ~= last then
  return 0
end
local score = redis.call('ZSCORE', due, name)
if not score and redis.call('ZCARD', due) >= tonumber(limit) and #schedule_names(due) >= tonumber(limit) then
  return 2
end
if keep == '1' and score and stored[2] and stored[2] ~= '' then
  tick, at = stored[2], stored[4] and stored[2] or score -- after a failure it is tried at once
end
if stored[3] then
  at = '+inf'
end
redis.call('ZADD', due, at, name)
local written = redis.pcall('HSET', schedules, name, definition, name .. ':tick', tick)
if type(written) == 'table' then -- the user may lack the right
  if score then
    redis.call('ZADD', due, score, name)
  else
    redis.call('ZREM', due, name)
  end
  return written
end
redis.pcall('HDEL', schedules, name .. ':failure') -- the user may lack the right: it is done nevertheless
return 1
