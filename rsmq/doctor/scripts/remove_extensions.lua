-- Removes extension data of a queue that does not exist.
--
-- KEYS[1] hash            hash        the queue's attributes, bodies and counters
-- KEYS[2] zset            sorted set  the queue's message ids
-- KEYS[3...] extensions   keys        extension data of the queue
--
-- returns how many keys were removed
-- errors  none
-- source  none in Node

local hash, zset = KEYS[1], KEYS[2]
local extensions = KEYS

if redis.call('EXISTS', hash, zset) > 0 then
  return 0
end
return redis.call('UNLINK', unpack(extensions, 3))
