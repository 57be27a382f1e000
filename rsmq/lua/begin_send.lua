-- What a sender must know to make the ids of large messages itself: the first of the two steps in
-- which send_messages sends them. Changes nothing.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1] largest  integer     size of the largest, as in send_message.lua
-- ARGV[2] delay    integer     ms until they are visible; '' = the queue's, 'front' = now, first
--
-- returns the first part of the ids
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include sending.lua
-- @include id.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, delay = ARGV[1], ARGV[2]

local stored, refusal = sendable(hash, largest, delay)
if not stored then
  return refusal
end
-- These fail, while nothing is changed, when memory is full, and for a user who may not take the
-- bodies out again.
redis.call('ZADD', zset, 'XX', '0', '')
redis.call('HDEL', hash, '')
return base36(server_time_us())
