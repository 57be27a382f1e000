-- Returns the messages for which a group waits without need, behind a position; one step of a walk. It is the first message
-- of a group that is held back and in the queue, while none of the group is admitted. Nothing is changed.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[4] held_back  sorted set  the messages that are held back
-- ARGV[1] from       string      the position; '' = the first step
--
-- returns {position or nil at the end, {id of each such message}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include groups.lua
-- @include sweeping_groups.lua

local hash, zset, admitted, held_back = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local from = ARGV[1]

-- Returns whether one of the first admitted messages of a group is in the queue: there is one, and records of those that
-- another client has deleted.
local function has_admitted(group)
  for _, member in ipairs(members_of(admitted, group, '10')) do
    local _, id = split_member(member)
    if redis.call('ZSCORE', zset, id) then
      return true
    end
  end
  return false
end

local now = server_time_ms()
local members = redis.call('ZRANGEBYLEX', held_back, from == '' and '-' or '(' .. from, '+', 'LIMIT', '0', '100')
local groups, ids = {}, {}
for at, member in ipairs(members) do
  groups[at], ids[at] = split_member(member)
end
local scores = #ids > 0 and redis.call('ZMSCORE', zset, unpack(ids)) or {}
local waiting, examined = {}, nil
for at, group in ipairs(groups) do
  if group ~= examined and scores[at] then
    examined = group
    if tonumber(scores[at]) > now and not was_shown(hash, ids[at]) and not has_admitted(group) then
      waiting[#waiting + 1] = ids[at]
    end
  end
end
-- The others of the last group need not be read.
local last = groups[#groups]
return {#members == 100 and (examined == last and last .. '\1' or members[100]), waiting}
