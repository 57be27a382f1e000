-- Deletes a queue with all its messages, even if it lacks attributes.
--
-- KEYS[1] hash            hash        the queue's attributes, bodies and counters
-- KEYS[2] zset            sorted set  the queue's message ids
-- KEYS[3] queues          set         the names of all queues
-- KEYS[4...] extensions   keys        extension data of the queue
-- ARGV[1] name            string      the queue's name
--
-- returns 1 if there was something to delete, else 0
-- errors  none
-- source  npm rsmq 0.12.4 deleteQueue; UNLINK instead of DEL, which blocks on a large queue

local hash, zset, queues = KEYS[1], KEYS[2], KEYS[3]
local extensions = KEYS
local name = ARGV[1]

redis.call('HMGET', hash, 'vt') -- these two fail on a key of another type, which is not a queue's
redis.call('ZSCORE', zset, '')
redis.call('SREM', queues, name)
redis.call('UNLINK', unpack(extensions, 4))
return math.min(redis.call('UNLINK', hash, zset), 1)
