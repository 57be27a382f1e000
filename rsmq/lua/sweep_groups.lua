-- Examines messages that are held back, from a position on; one step of a walk. Admits messages of groups that have none,
-- such as after a delete by another client, and keeps the scores of the others a day ahead.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[4] held_back  sorted set  the messages that are held back
-- KEYS[5] records    hash        the group of each message
-- ARGV[1] from       string      the position: the last member that was examined; '' = the first step
-- ARGV[2] most       integer     the number of members to examine
--
-- returns {position or nil at the end, number of messages that were admitted}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include full.lua
-- @include groups.lua

local hash, zset, admitted, held_back, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local from, most = ARGV[1], ARGV[2]

if not queue(hash) then
  return queue_not_found(hash)
end
allow_when_full(zset)
redis.call('ZREM', admitted, '') -- these fail here if the user lacks the right, before any change
redis.call('ZREM', held_back, '')
redis.call('HDEL', records, '')

local now, number, groups = server_time_ms(), 0, {}
local members = redis.call('ZRANGEBYLEX', held_back, from == '' and '-' or '(' .. from, '+', 'LIMIT', '0', most)
for _, member in ipairs(members) do
  local group, id = string.match(member, '^(.*)%z([^%z]*)$')
  local score = redis.call('ZSCORE', zset, id)
  if is_gone(zset, id) then
    forget_group(zset, group, id)
  elseif redis.call('ZSCORE', admitted, member) then -- a crash has cut its admission
    admit_message(zset, hash, group, id)
  elseif score - now < 43200000 and not was_shown(hash, id) then
    redis.call('ZADD', zset, digits(now + 86400000), id)
  end
  groups[group] = true
end
for group in pairs(groups) do
  local before = redis.call('ZCARD', held_back)
  admit(zset, hash, group)
  number = number + before - redis.call('ZCARD', held_back)
end
return {#members == tonumber(most) and members[#members], number}
