-- Stores the errors of a tracked task in its record.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] record    hash        the record of the message, see begin_attempt.lua
-- ARGV[1] id        string      the message
-- ARGV[2] count     integer     its receive count
-- ARGV[3] errors    bytes       for each failed attempt a line 'COUNT {"class": PATH, "traceback": TEXT}'
--
-- returns 1; nothing if the message is not in the queue, was received again since, or has no record: then nothing is
--         changed
-- errors  none
-- source  none in Node

local hash, zset, record = KEYS[1], KEYS[2], KEYS[3]
local id, count, errors = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HGET', hash, id .. ':rc') ~= count or not redis.call('ZSCORE', zset, id)
  or not redis.call('HGET', record, 'state') then
  return false
end
redis.call('HSET', record, 'errors', errors)
return 1
