-- Adds a message to a queue.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1] body     bytes       the message
-- ARGV[2] size     integer     its size in UTF-16 code units of text or bytes of bytes; 0 = any size
-- ARGV[3] delay    integer     ms until it is visible; '' = the queue's delay, 'front' = now, first
-- ARGV[4] suffix   string      the 22 random characters of its id
-- ARGV[5] channel  string      where to publish the number of messages; '' = don't
--
-- returns the id
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  npm rsmq 0.12.4 sendMessage; one step instead of two transactions and a PUBLISH
-- @include _time.lua
-- @include _attributes.lua
-- @include _sending.lua

local hash, zset = KEYS[1], KEYS[2]
local body, size, delay, suffix, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored, wait = sendable(hash, size, delay)
if not stored then
  return wait
end

-- Changes nothing, for no id is empty; fails, before anything is changed, when memory is full
-- and on a key of another type.
redis.call('ZADD', zset, 'XX', 0, '')
if channel ~= '' then -- first, since a user may lack the permission; subscribers can't look before
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + 1)
end

local us = server_time_us()
local id = base36(us) .. suffix
redis.call('HINCRBY', hash, 'totalsent', 1)
redis.call('HSET', hash, id, body)
redis.call('ZADD', zset, score_of(zset, delay, math.floor(us / 1000), wait), id)
return id
