-- Stores an operation of many messages, which a server takes up.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] operation  hash        the record of the operation
-- KEYS[3] index      sorted set  ids of operations: ms from which one may be taken, or minus the ms of its end
-- ARGV[1] id         string      the id
-- ARGV[2] most       integer     how many may be unfinished
-- ARGV[3] kept       integer     ms for which ended ones are listed
-- ARGV[4...] fields  strings     names and values
--
-- returns ms now, or 0 if too many are unfinished
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua

local hash, operation, index = KEYS[1], KEYS[2], KEYS[3]
local id, most, kept = ARGV[1], ARGV[2], ARGV[3]
local fields = ARGV

local stored = queue(hash, 'created')
if not stored then
  return queue_not_found(hash)
end
local now = server_time_ms()
if redis.call('ZCOUNT', index, '0', '+inf') >= tonumber(most) then
  return 0
end
-- The 1,000 that ended last remain, if they are not too old; their scores are below 0.
for _, old in ipairs({{digits(kept - now), '0'}, {'-inf', '1000'}}) do
  for _, ended in ipairs(redis.call('ZRANGEBYSCORE', index, old[1], '(0', 'LIMIT', old[2], '1000')) do
    redis.call('ZREM', index, ended)
  end
end
redis.call('HSET', operation, 'state', 'waiting', 'begun', digits(now), 'created', stored[4] or '',
  unpack(fields, 4))
redis.call('ZADD', index, digits(now), id)
return digits(now)
