-- Moves what is kept back to a queue, in steps. Messages in the queue stay as they are.
-- @include attribute_names.lua
-- @include regrouping.lua
-- @include copying.lua
-- @include due.lua
-- @include expiries.lua
-- @include group_lists.lua
-- @include local_groups.lua
-- @include marking.lua
-- @include variadic.lua
-- @include was_received.lua

-- Returns {id, group, id ...} of the messages that have groups, and gives those that were held back the scores from which
-- they are due.
local function kept_groups(zset, found, kept_hash, members)
  local records, held_back
  for _, each in ipairs(found) do
    records = each[1] == zset .. ':x:group_of' and each[2] or records
    held_back = each[1] == zset .. ':x:held_back' and each[2] or held_back
  end
  local groups = {}
  for at = 2, records and #members or 0, 2 do
    local id = members[at]
    local due, group = string.match(redis.call('HGET', records, id) or '', '^(%d+):(.+)$')
    if group then
      groups[#groups + 1], groups[#groups + 2] = id, group
      if held_back and redis.call('ZSCORE', held_back, group .. '\0' .. id) and not was_received(kept_hash, id) then
        members[at - 1] = due
      end
    end
  end
  if #groups > 0 then
    require_local_group_keys(zset)
  end
  return groups
end

-- Moves some messages, with what is kept of them in the second key of each pair of `beside`. `found` are all
-- keys that are kept. Returns how many were restored, and how many are in the queue already.
local function restore_some(hash, kept_hash, zset, kept_zset, beside, found, now, most, room)
  local rows, answers = {}, {}
  for at, id in ipairs(redis.call('ZRANGE', kept_zset, 0, most - 1)) do
    rows[3 * at - 2], rows[3 * at - 1], rows[3 * at] = id, '', ''
    answers[at] = redis.call('ZSCORE', zset, id) and 0 or 1
  end
  local fields, members, ids, looked = read_messages(kept_hash, kept_zset, rows, 1, answers, room)
  local groups = kept_groups(zset, found, kept_hash, members)
  local limited = redis.call('HGET', kept_hash, 'x:limited')
  if limited then
    mark_limited(hash, redis.call('HGET', hash, 'x:limited'), limited)
  end
  local passed = {}
  for at = 1, looked do
    passed[at] = rows[3 * at - 2]
  end
  for pair = 1, #beside, 2 do
    copy_facts(beside[pair + 1], beside[pair], ids)
    variadic('HDEL', beside[pair + 1], passed)
  end
  variadic('HSET', hash, fields)
  variadic('ZADD', zset, members)
  regroup(zset, hash, groups, now)
  variadic('ZREM', kept_zset, passed)
  variadic('HDEL', kept_hash, fields_of(passed))
  return #ids, looked - #ids
end

-- Moves some of what is used of limits: of each member, the later turn or the last receive. Returns whether there may be
-- more. The messages of groups are listed again with them, and not here.
local function restore_used(live, kept)
  if not (string.find(live, ':x:rates$') or string.find(live, ':x:running$')) then
    return false
  end
  local members, moved = redis.call('ZRANGE', kept, 0, 249, 'WITHSCORES'), {}
  for at = 1, #members, 2 do
    redis.call('ZADD', live, 'GT', members[at + 1], members[at])
    moved[#moved + 1] = members[at]
  end
  variadic('ZREM', kept, moved)
  return #moved > 0
end

-- Moves some of the other fields of kept hashes, and returns whether there may be more. Of attributes, those that the
-- queue has now are right.
local function restore_fields(found, hash)
  for _, each in ipairs(found) do
    local live, kept = each[1], each[2]
    if restore_used(live, kept) then
      return true
    end
    local is_attribute, moved = {}, {}
    local attributes = live == hash and stored_attributes(kept) or {}
    for at = 1, #attributes, 2 do
      is_attribute[attributes[at]] = true
    end
    local cursor = '0'
    repeat
      local scan = is_sorted_set(kept) and {'0', {}} or redis.call('HSCAN', kept, cursor, 'COUNT', '250')
      cursor = scan[1]
      for at = 1, #scan[2], 2 do
        if not is_attribute[scan[2][at]] then
          redis.call('HSETNX', live, scan[2][at], scan[2][at + 1])
          moved[#moved + 1] = scan[2][at]
        end
      end
    until #moved > 0 or cursor == '0'
    variadic('HDEL', kept, moved)
    if #moved > 0 then
      return true
    end
  end
  return false
end

local function restore_expiries(found, hash, now)
  for _, each in ipairs(found) do
    if each[1] ~= hash and redis.call('EXISTS', each[1]) == 1 then
      restore_expiry(each[1], each[3], each[4], now)
    end
  end
end
