-- Returns the keys and attributes of a queue as stored, also if they are incomplete or of a wrong type.
--
-- KEYS[1] hash            hash        the queue's attributes, bodies and counters
-- KEYS[2] zset            sorted set  the queue's message ids
-- KEYS[3] queues          set         the names of all queues
-- KEYS[4...] extensions   keys        extension data of the queue
-- ARGV[1] name            string      the queue's name
-- ARGV[2...] fields       strings     the names of attribute fields
--
-- returns {ms now; type and ms to live of the hash; the same of the sorted set; 1 if its name is listed; number of
--         fields; number of ids; {value of each field}; {type of each key of extension data}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include kind.lua

local hash, zset, queues = KEYS[1], KEYS[2], KEYS[3]
local extensions = KEYS
local name = ARGV[1]
local fields = ARGV

local hash_kind, zset_kind = kind_of(hash), kind_of(zset)
local listed = kind_of(queues) == 'set' and redis.call('SISMEMBER', queues, name) or 0
local values, field_count, id_count, kinds = {}, 0, 0, {}
if hash_kind == 'hash' then
  field_count, values = redis.call('HLEN', hash), redis.call('HMGET', hash, unpack(fields, 2))
end
if zset_kind == 'zset' then
  id_count = redis.call('ZCARD', zset)
end
for at = 4, #extensions do
  kinds[#kinds + 1] = kind_of(extensions[at])
end
return {digits(server_time_ms()), hash_kind, redis.call('PTTL', hash), zset_kind, redis.call('PTTL', zset), listed,
  field_count, id_count, values, kinds}
