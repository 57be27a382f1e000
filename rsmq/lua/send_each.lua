-- Adds the messages of several calls of send_message to a queue, in order; leaves out those that are too long.
--
-- KEYS[1] hash         hash        the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set  the queue's message ids
-- ARGV[1] delay        integer     ms until they are visible, as in send_message.lua; not 'front'
-- ARGV[2] suffixes     string      the 22 random characters of each id, sorted
-- ARGV[3...] messages  bytes       for each its size, as in send_message.lua, and its body
--
-- returns {the first part of the ids, the size limit}; -1 = no limit
-- errors  QUEUENOTFOUND, INVALIDVALUE; then nothing is added. MESSAGETOOLONG is for the client to raise
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include attributes.lua
-- @include sending.lua
-- @include id.lua
-- @include storing.lua

local hash, zset = KEYS[1], KEYS[2]
local delay, suffixes = ARGV[1], ARGV[2]
local messages = ARGV

local us = server_time_us()
local now, time = math.floor(us / 1000), base36(us)
local stored, wait = sendable(hash, '0', delay, now)
if not stored then
  return wait
end

local score, limit = score_of(zset, delay, now, wait), stored_maxsize(stored[3])
local fields, members, number = {}, {}, 0
for each = 1, (#messages - 2) / 2 do
  if limit == -1 or tonumber(messages[2 * each + 1]) <= limit then
    local id = time .. string.sub(suffixes, 22 * each - 21, 22 * each)
    number = number + 1
    fields[2 * number - 1], fields[2 * number] = id, messages[2 * each + 2]
    members[2 * number - 1], members[2 * number] = score, id
  end
end

if number > 0 then -- in the order of send_message.lua
  begin_storing(zset, '', number)
  store_messages(hash, zset, fields, members, number)
end
-- A larger number would not fit into a reply.
return {time, math.min(limit, 1e15)}
