-- Returns the messages for which a group waits without need, behind a position; one step of a walk. It is the first message
-- of a group that is held back and in the queue, while the group has room. Nothing is changed.
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

-- Returns whether a group has room, by its first ten records: among them may be those of messages that another client has
-- deleted. Of a limit key with more places, only these ten are looked at.
local function has_room(group)
  local number = 0
  for _, member in ipairs(members_of(admitted, group, '10')) do
    local _, id = split_member(member)
    number = number + (redis.call('ZSCORE', zset, id) and 1 or 0)
  end
  return number < math.min(most_of(group), 10)
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
    if tonumber(scores[at]) > now and not was_shown(zset, hash, ids[at]) and has_room(group) then
      waiting[#waiting + 1] = ids[at]
    end
  end
end
-- The others of the last group need not be read.
local last = groups[#groups]
return {#members == 100 and (examined == last and last .. '\1' or members[100]), waiting}
