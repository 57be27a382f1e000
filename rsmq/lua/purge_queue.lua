-- Removes all messages of a queue; its attributes and totals stay. Constant time.
--
-- KEYS[1] hash            hash        the queue's attributes, bodies and counters
-- KEYS[2] zset            sorted set  the queue's message ids
-- KEYS[3...] extensions   keys        extension data of the queue
--
-- returns the number of ids removed
-- errors  QUEUENOTFOUND
-- source  none in Node; it keeps the fields that known clients store for a queue
-- @include queue.lua
-- @include attribute_names.lua

local hash, zset = KEYS[1], KEYS[2]
local extensions = KEYS

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local kept = stored_attributes(hash)
-- The first command allows the others when memory is full, and removes nothing: no message has an empty
-- id. The second fails, before any change, if the user lacks the right to write the attributes back.
redis.call('ZREM', zset, '\0none')
redis.call('HSET', hash, 'vt', stored[1])
local removed = redis.call('ZCARD', zset)
redis.call('UNLINK', zset, hash, unpack(extensions, 3))
redis.call('HSET', hash, unpack(kept))
return removed
