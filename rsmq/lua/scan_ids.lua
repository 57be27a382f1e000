-- Ids of a queue with their scores, in no order; one step of a walk. Whatever is in the queue from the first
-- step to the last is met, wherever its score goes meanwhile, and some of it twice.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- ARGV[1] cursor  string      where the walk is, '0' = the first step
--
-- returns {the next cursor, '0' at the end; {id, score, id ...}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include _attributes.lua

local hash, zset = KEYS[1], KEYS[2]
local cursor = ARGV[1]

if not queue(hash) then
  return queue_not_found(hash)
end
return redis.call('ZSCAN', zset, cursor, 'COUNT', '1000')
