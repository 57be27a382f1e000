-- Adds messages with their ids, times and counters; those that are in the queue are not changed.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] largest   integer     size of the largest body, as in send_message.lua
-- ARGV[2] channel   string      channel for the number of messages; '' = none
-- ARGV[3...] rows   strings     the records of the messages, as read_carried reads them; and the messages, as in
--                               fragments/restoring.lua
--
-- returns how many were added
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what Node's sends and receives have written
-- @include time_ms.lua
-- @include digits.lua
-- @include sending.lua
-- @include carried.lua
-- @include restoring.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, channel = ARGV[1], ARGV[2]
local rows = ARGV

local stored, refusal = sendable(hash, largest, '')
if not stored then
  return refusal
end
local now = server_time_ms()
local records, at = read_carried(rows, 3)
local carried = carried_of(zset, records, false)
prepare_carried(zset, hash, carried)
local added = restore(hash, zset, rows, at, digits(now))
store_carried(zset, hash, carried, now)
if channel ~= '' and added > 0 then
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
end
return added
