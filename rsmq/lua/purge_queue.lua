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

local hash, zset = KEYS[1], KEYS[2]
local extensions = KEYS

if not queue(hash) then
  return queue_not_found(hash)
end
local names = {'vt', 'delay', 'maxsize', 'totalrecv', 'totalsent', 'created', 'modified',
  'x:dlq', 'x:max', 'x:paused', 'x:keep', 'x:expired', 'x:divided', 'createdby'}
local values = redis.call('HMGET', hash, unpack(names))
local kept = {}
for at, name in ipairs(names) do
  if values[at] then
    kept[#kept + 1] = name
    kept[#kept + 1] = values[at]
  end
end
-- The first command allows the others when memory is full, and removes nothing: no message has an empty
-- id. The second fails, before any change, if the user lacks the right to write the attributes back.
redis.call('ZREM', zset, '')
redis.call('HSET', hash, 'vt', values[1])
local removed = redis.call('ZCARD', zset)
redis.call('UNLINK', zset, hash, unpack(extensions, 3))
redis.call('HSET', hash, unpack(kept))
return removed
