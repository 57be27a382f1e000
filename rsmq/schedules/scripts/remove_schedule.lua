-- Removes a schedule.
--
-- KEYS[1] schedules  hash        definitions by name, and their states
-- KEYS[2] due        sorted set  names by the ms of the next attempt
-- ARGV[1] name       string      the schedule
--
-- returns 1 it is removed, 0 there was none
-- errors  none
-- source  none in Node

local schedules, due = KEYS[1], KEYS[2]
local name = ARGV[1]

redis.call('HDEL', schedules, '') -- no such field: the user may lack the right
local removed = redis.call('ZREM', due, name)
local fields = redis.call('HDEL', schedules, name, name .. ':tick', name .. ':paused', name .. ':last', name .. ':failure')
return math.min(removed + fields, 1)
