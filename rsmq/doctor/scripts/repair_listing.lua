-- Gives a queue its missing attributes and lists it, or removes the name of a queue that does not exist from the list.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- KEYS[3] queues   set         the names of all queues
-- ARGV[1] name     string      the queue's name
-- ARGV[2] create   integer     1 = also if vt, delay and maxsize are all missing
-- ARGV[3] vt       integer     seconds, if it is missing
-- ARGV[4] delay    integer     seconds, if it is missing
-- ARGV[5] maxsize  integer     UTF-16 code units or bytes, or -1; if it is missing
--
-- returns 1 if anything changed, else 0
-- errors  none
-- source  npm rsmq 0.12.4 createQueue, which writes the same fields
-- @include time_us.lua
-- @include digits.lua
-- @include full.lua
-- @include queue.lua

local hash, zset, queues = KEYS[1], KEYS[2], KEYS[3]
local name, create, vt, delay, maxsize = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize')
allow_when_full(zset)
if redis.call('EXISTS', hash, zset) == 0 then
  return redis.call('SREM', queues, name)
end
if queue(hash) then
  return redis.call('SADD', queues, name)
end
if create ~= '1' and not (stored[1] or stored[2] or stored[3]) then
  return 0
end
local now = digits(math.floor(server_time_us() / 1000000))
redis.call('SADD', queues, name)
redis.call('HSETNX', hash, 'vt', vt)
redis.call('HSETNX', hash, 'delay', delay)
redis.call('HSETNX', hash, 'maxsize', maxsize)
redis.call('HSETNX', hash, 'created', now)
redis.call('HSETNX', hash, 'modified', now)
return 1
