-- Adds messages with groups or limit keys to a queue, in order, and no other options.
--
-- KEYS[1] hash         hash        the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set  the queue's message ids
-- ARGV[1] largest      integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay        integer     ms until they are visible, as in send_message.lua, without 'front'
-- ARGV[3] suffixes     string      the 22 random characters of each id, sorted
-- ARGV[4] channel      string      channel for the number of messages; '' = none
-- ARGV[5...] messages  bytes       for each message its body and its group, as in fragments/groups.lua; '' = none
--
-- returns the first part of the ids
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include digits.lua
-- @include sending.lua
-- @include id.lua
-- @include storing.lua
-- @include grouping.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, delay, suffixes, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local messages = ARGV

local us = server_time_us()
local now, time = math.floor(us / 1000), base36(us)
local stored, wait = sendable(hash, largest, delay, now, 'x:groups')
if not stored then
  return wait
end
require_local_groups(zset, suffixes)
local fields, members, groups, due = {}, {}, {}, digits(now + wait)
local number = (#messages - 4) / 2
for each = 1, number do
  local id = time .. string.sub(suffixes, 22 * each - 21, 22 * each)
  local body, group = messages[2 * each + 3], messages[2 * each + 4]
  put(fields, id, body)
  put(members, due, id)
  groups[id] = group ~= '' and group or nil
end
begin_storing(zset, channel, number)
remove_free_groups(zset, groups, number)
store_groups(zset, hash, groups, members, now, stored[4])
store_messages(hash, zset, fields, members, number)
return time
