-- Returns messages that are held back and lack a record; one step of a walk. If x:group_of has more records than the lists,
-- it walks through it, for messages that x:held_back does not list; if it has less, through x:held_back, for messages whose
-- group is not stored.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[4] held_back  sorted set  the messages that are held back
-- KEYS[5] records    hash        the group of each message
-- ARGV[1] from       string      the position: a cursor of HSCAN, or a member; '0' = the first step
--
-- returns {the next position, '0' at the end; {id of each such message}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include sweeping_groups.lua

local hash, zset, admitted, held_back, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local from = ARGV[1]

local now, ids = server_time_ms(), {}
local surplus, is_cursor = surplus_of(records, admitted, held_back), string.find(from, '^%d+$')
if surplus > 0 and is_cursor then
  local scan = redis.call('HSCAN', records, from, 'COUNT', '100')
  for at = 1, #scan[2], 2 do
    local id, group = scan[2][at], string.match(scan[2][at + 1], '^%d+:(.+)$')
    local score = redis.call('ZSCORE', zset, id)
    if score and group and is_unlisted(zset, hash, admitted, held_back, group, id, score, now) then
      ids[#ids + 1] = id
    end
  end
  return {scan[1], ids}
end
if surplus >= 0 then -- other clients have changed it during the walk
  return {'0', ids}
end
local members = redis.call('ZRANGEBYLEX', held_back, is_cursor and '-' or '(' .. from, '+', 'LIMIT', '0', '100')
for _, member in ipairs(members) do
  local _, id = split_member(member)
  if redis.call('ZSCORE', zset, id) and redis.call('HEXISTS', records, id) == 0 then
    ids[#ids + 1] = id
  end
end
return {members[100] or '0', ids}
