-- Creates a queue, or completes one that lacks attributes, and lists it.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- KEYS[3] queues   set         the names of all queues
-- ARGV[1] name     string      the queue's name
-- ARGV[2] vt       integer     seconds
-- ARGV[3] delay    integer     seconds
-- ARGV[4] maxsize  integer     UTF-16 code units or bytes, or -1
-- ARGV[5] keep     integer     seconds after which messages expire; 0 = never
--
-- returns {1} if it was created or completed, {0, vt, delay, maxsize, keep as stored} if it existed
-- errors  none
-- source  npm rsmq 0.12.4 createQueue; it also lists a queue that is not listed, and completes a partial one
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua

local hash, zset, queues = KEYS[1], KEYS[2], KEYS[3]
local name, vt, delay, maxsize, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored = queue(hash, 'x:keep')
redis.call('ZSCORE', zset, '') -- fails on a key of another type, before any change
if stored then
  redis.pcall('SREM', queues, '\0none') -- no queue has this name: when memory is full, it allows the next
end
redis.call('SADD', queues, name)
if stored then
  return {0, stored[1], stored[2], stored[3], stored[4] or '0'}
end

local now = digits(math.floor(server_time_us() / 1000000))
redis.call('HSETNX', hash, 'vt', vt)
redis.call('HSETNX', hash, 'delay', delay)
redis.call('HSETNX', hash, 'maxsize', maxsize)
redis.call('HSETNX', hash, 'created', now)
redis.call('HSETNX', hash, 'modified', now)
if keep ~= '0' then
  redis.call('HSETNX', hash, 'x:keep', keep)
end
return {1}
