-- Adds messages to a queue, in order.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- ARGV[1] largest     integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay       integer     ms until they are visible, as in send_message.lua
-- ARGV[3] suffixes    string      the 22 random characters of each id, sorted
-- ARGV[4] channel     string      channel for the number of messages; '' = none
-- ARGV[5...] bodies   bytes       the messages
--
-- returns the first part of the ids
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include sending.lua
-- @include id.lua
-- @include storing.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, delay, suffixes, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local bodies = ARGV

local us = server_time_us()
local now, time = math.floor(us / 1000), base36(us)
local stored, wait = sendable(hash, largest, delay, now)
if not stored then
  return wait
end

local score = score_of(zset, delay, now, wait)
local fields, members, number = {}, {}, #bodies - 4
for each = 1, number do
  local id = time .. string.sub(suffixes, 22 * each - 21, 22 * each)
  fields[2 * each - 1], fields[2 * each] = id, bodies[4 + each]
  members[2 * each - 1], members[2 * each] = score, id
end

if number > 0 then -- in the order of send_message.lua
  begin_storing(zset, channel, number)
  store_messages(hash, zset, fields, members, number)
end
return time
