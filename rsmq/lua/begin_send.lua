-- Checks a batch of large messages, and returns the time of their ids: the first of the two steps in
-- which send_messages sends them. Changes nothing.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1] largest  integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay    integer     ms until they are visible, as in send_message.lua
--
-- returns {the first part of the ids, the size limit}; -1 = no limit
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node
-- @include time_us.lua
-- @include attributes.lua
-- @include sending.lua
-- @include id.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, delay = ARGV[1], ARGV[2]

local us = server_time_us()
local stored, refusal = sendable(hash, largest, delay, math.floor(us / 1000))
if not stored then
  return refusal
end
-- These fail, before any change, if memory is full or if the user lacks the right to remove the
-- bodies again.
redis.call('ZADD', zset, 'XX', '0', '\0none')
redis.call('HDEL', hash, '\0none')
-- A larger number would not fit into a reply.
return {base36(us), math.min(stored_maxsize(stored[3]), 1e15)}
