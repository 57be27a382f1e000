-- Adds a message with a group or a limit key, and without other options. One message of a group is due at a time; of a
-- limit key, as many as it says.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[4] held_back  sorted set  the messages that are held back
-- KEYS[5] records    hash        the group of each message
-- ARGV[1] body       bytes       the message
-- ARGV[2] size       integer     its size, as in send_message.lua
-- ARGV[3] delay      integer     ms until it is visible, as in send_message.lua, without 'front'
-- ARGV[4] suffix     string      the 22 random characters of its id
-- ARGV[5] channel    string      channel for the number of messages; '' = none
-- ARGV[6] group      bytes       its group, or its limit key as in fragments/groups.lua
--
-- returns the id
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes
-- @include time_us.lua
-- @include digits.lua
-- @include id.lua
-- @include usual.lua

local hash, zset, admitted, held_back, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local body, size, delay, suffix, channel, group = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local us = server_time_us()
local now = math.floor(us / 1000)
local stored = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'totalsent', 'x:groups')
local due
if stored[1] and stored[2] and stored[3] and usual(stored[4], 15)
  and (stored[3] == '-1' or usual(stored[3], 7) and size + 0 <= stored[3] + 0)
  and #delay < 11 and (delay ~= '' or usual(stored[2], 7)) then
  due = digits(now + (delay ~= '' and delay or stored[2] * 1000))
else -- the slow path for unusual values
  -- @include queue.lua
  -- @include attributes.lua
  -- @include sending.lua
  -- @include totals.lua
  local found, wait = sendable(hash, size, delay, now)
  if not found then
    return wait
  end
  stored[4] = as_integer(stored[4])
  due = digits(now + wait)
end
if channel ~= '' then -- as in send_message.lua
  redis.call('ZADD', zset, 'XX', '0', '\0none')
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + 1)
end

local id = base36(us) .. suffix
if not stored[5] then
  -- @include groups.lua
  begin_groups(zset, hash)
end
-- The first change: it fails if memory is full. A record without a message counts for nothing.
redis.call('HSET', records, id, due .. ':' .. group)
local from, to = '[' .. group .. '\0', '(' .. group .. '\1'
local first = redis.call('ZRANGEBYLEX', admitted, from, to, 'LIMIT', '0', '1')[1]
local has_room = not first and not redis.call('ZRANGEBYLEX', held_back, from, to, 'LIMIT', '0', '1')[1]
if not has_room and (string.byte(group) == 1 or not first
  or not redis.call('ZSCORE', zset, string.sub(first, #group + 2))) then
  -- @include groups.lua
  has_room = admit(zset, hash, group) > 0
end
redis.call('ZADD', has_room and admitted or held_back, '0', group .. '\0' .. id)
redis.call('ZADD', zset, has_room and due or digits(now + 86400000), id)
redis.call('HSET', hash, id, body, 'totalsent', raised(hash, 'totalsent', stored[4], 1))
if string.byte(suffix, 20) < 56 then -- one of eight sends, for all of them
  -- @include grouping.lua
  pcall(remove_free_groups, zset, {group}, 8) -- the message is stored, also if the user lacks a right
end
return id
