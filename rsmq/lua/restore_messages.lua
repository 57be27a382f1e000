-- Adds messages with their ids, times and counters; those that are in the queue are not changed.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] largest   integer     size of the largest body, as in send_message.lua
-- ARGV[2] channel   string      channel for the number of messages; '' = none
-- ARGV[3] number    integer     of texts of groups
-- ARGV[4] limited   integer     of texts of limits
-- ARGV[5...] rows   strings     so many texts, an id and a group each; so many, an id and its limits each, as in
--                               fragments/limits.lua; and the messages, as in fragments/restoring.lua
--
-- returns how many were added
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what Node's sends and receives have written
-- @include time_ms.lua
-- @include sending.lua
-- @include restoring_whole.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, channel, number, limited = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local rows = ARGV
number, limited = tonumber(number), tonumber(limited)

local stored, refusal = sendable(hash, largest, '')
if not stored then
  return refusal
end
local groups, records = {}, {}
for at = 5, 3 + number + limited, 2 do
  local found = at < 5 + number and groups or records
  found[#found + 1], found[#found + 2] = rows[at], rows[at + 1]
end
local added = restore_whole(hash, zset, rows, 5 + number + limited, groups, records, server_time_ms())
if channel ~= '' and added > 0 then
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
end
return added
