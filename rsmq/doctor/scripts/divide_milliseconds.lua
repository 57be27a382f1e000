-- Stores the vt and the delay of a queue in seconds, and both in a field by which no later run divides them again.
-- Changes nothing if one of the three values has changed.
--
-- KEYS[1] hash       hash     the queue's attributes, bodies and counters
-- ARGV[1] old_vt     string   the vt as it was read
-- ARGV[2] old_delay  string   the delay as it was read
-- ARGV[3] divided    string   the values of the last division as they were read; '' = there was none
-- ARGV[4] vt         integer  seconds
-- ARGV[5] delay      integer  seconds
--
-- returns 1 if they were stored, else 0
-- errors  none
-- source  none in Node

local hash = KEYS[1]
local old_vt, old_delay, divided, vt, delay = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored = redis.call('HMGET', hash, 'vt', 'delay', 'x:divided')
if stored[1] ~= old_vt or stored[2] ~= old_delay or (stored[3] or '') ~= divided then
  return 0
end
redis.call('HSET', hash, 'vt', vt, 'delay', delay, 'x:divided', vt .. ' ' .. delay)
return 1
