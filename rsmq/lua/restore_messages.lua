-- Adds messages with their ids, times and counters; those that are in the queue are not changed.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] largest   integer     size of the largest body, as in send_message.lua
-- ARGV[2] channel   string      channel for the number of messages; '' = none
-- ARGV[3...] rows   strings     the messages, as in fragments/restoring.lua
--
-- returns how many were added
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what Node's sends and receives have written
-- @include time_ms.lua
-- @include digits.lua
-- @include sending.lua
-- @include restoring.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, channel = ARGV[1], ARGV[2]
local rows = ARGV

local stored, refusal = sendable(hash, largest, '')
if not stored then
  return refusal
end
local number = restore(hash, zset, rows, 3, digits(server_time_ms()))
if channel ~= '' and number > 0 then
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
end
return number
