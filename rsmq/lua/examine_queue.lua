-- What there is of a queue, whatever it is.
--
-- KEYS[1] hash            hash        the queue's attributes, bodies and counters
-- KEYS[2] zset            sorted set  the queue's message ids
-- KEYS[3] queues          set         the names of all queues
-- KEYS[4...] extensions   keys        extension data of the queue
-- ARGV[1] name            string      the queue's name
-- ARGV[2...] fields       strings     the names of attribute fields
--
-- returns {ms now, type and ms to live of the hash, of the sorted set, 1 if it is listed, fields of the
--         hash, ids, {value of each field}, {1 for each key of extension data that is there, else 0}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include kind.lua

local hash, zset, queues = KEYS[1], KEYS[2], KEYS[3]
local extensions = KEYS
local name = ARGV[1]
local fields = ARGV

local kind, other = kind_of(hash), kind_of(zset)
local listed = kind_of(queues) == 'set' and redis.call('SISMEMBER', queues, name) or 0
local values, length, ids, found = {}, 0, 0, {}
if kind == 'hash' then
  length, values = redis.call('HLEN', hash), redis.call('HMGET', hash, unpack(fields, 2))
end
if other == 'zset' then
  ids = redis.call('ZCARD', zset)
end
for at = 4, #extensions do
  found[#found + 1] = redis.call('EXISTS', extensions[at])
end
return {digits(server_time_ms()), kind, redis.call('PTTL', hash), other, redis.call('PTTL', zset), listed,
  length, ids, values, found}
