-- Messages that come to a queue with their ids and their groups, as by an undo, a move or an import.
-- @include digits.lua
-- @include grouping.lua
-- @include groups.lua
-- @include was_received.lua

local function store_groups_again(zset, hash, messages, now)
  local changed = {}
  if not redis.call('HGET', hash, 'x:groups') then
    begin_groups(zset, hash)
  end
  for at = 1, #messages, 2 do
    local id, group = messages[at], messages[at + 1]
    local member, due = group .. '\0' .. id, tonumber(redis.call('ZSCORE', zset, id))
    if not redis.call('ZSCORE', zset .. ':x:held_back', member) then -- else the score is not the time when it is due
      redis.call('HSET', zset .. ':x:group_of', id, digits(math.min(math.max(due, 0), 2 ^ 53)) .. ':' .. group)
    end
    if was_received(hash, id) then
      redis.call('ZADD', zset .. ':x:admitted', '0', member)
    elseif not redis.call('ZSCORE', zset .. ':x:admitted', member) then
      redis.call('ZADD', zset .. ':x:held_back', '0', member)
      redis.call('ZADD', zset, digits(now + 86400000), id)
    end
    changed[#changed + 1] = not changed[group] and group or nil
    changed[group] = true
  end
  for _, group in ipairs(changed) do
    admit(zset, hash, group, 0) -- they keep their times
  end
end

-- Stores the groups of {id, group, id ...}, messages that are in the queue now. One that was received is admitted, as it
-- may be in flight; the others wait until their group has room. Without the right to the records they have no groups. The
-- script has called require_local_group_keys. Also removes records of messages that are gone, unless it `keeps` them.
local function regroup(zset, hash, messages, now, keeps)
  local grouped = {}
  for at = 1, #messages, 2 do
    if string.sub(messages[at], -2) == 'Gr' then -- a delete looks for the groups of these only
      grouped[#grouped + 1], grouped[#grouped + 2] = messages[at], messages[at + 1]
    end
  end
  if #grouped > 0 then
    pcall(store_groups_again, zset, hash, grouped, now) -- a sweep completes it
    if not keeps then
      pcall(remove_free_groups, zset, grouped, #grouped / 2)
    end
  end
end

-- Returns {id, group, id ...} of those of these messages that have groups.
local function groups_of(zset, ids)
  local messages = {}
  for _, id in ipairs(ids) do
    local due, group
    if string.sub(id, -2) == 'Gr' then
      due, group = group_of(zset, id)
    end
    if due then
      messages[#messages + 1], messages[#messages + 2] = id, group
    end
  end
  return messages
end
