-- Messages of groups, of which one at a time is due; the others are held back, with a score a day ahead. Three keys
-- beside the queue: x:admitted and x:held_back have the messages of each group, x:group_of the group of each message. A
-- record counts only while its message is in the queue. docs/contributing/admission.md has the rules. The group of a
-- limit key is the byte 1, the number of its messages that may run at a time, a colon, and the key.

-- Returns how many messages of a group may be admitted at a time.
local function most_of(group)
  return string.byte(group) == 1 and tonumber(string.match(group, '^\1(%d+):')) or 1
end

-- Returns the ms from which a message with a group may be due, and its group; or nothing. A user may lack the right to
-- the hash. Then the message has no group.
local function group_of(zset, id)
  local record = redis.pcall('HGET', zset .. ':x:group_of', id)
  if type(record) == 'string' then
    return string.match(record, '^(%d+):(.+)$')
  end
end

-- Returns whether a message has left the queue. An id without a body counts as a message until a receive removes it.
local function is_gone(zset, id)
  return not redis.call('ZSCORE', zset, id)
end

-- Removes the records of a message.
local function forget_group(zset, group, id)
  local member = group .. '\0' .. id
  if redis.call('ZREM', zset .. ':x:admitted', member) == 0 then
    redis.call('ZREM', zset .. ':x:held_back', member)
  end
  redis.call('HDEL', zset .. ':x:group_of', id)
end

-- Removes the records of messages that are gone, if there are some: the first ones of `members` of one of the lists. A call
-- has at most 1,000.
local function forget_members(zset, list, members, ids)
  if ids then
    redis.call('ZREM', list, unpack(members, 1, #ids))
    redis.call('HDEL', zset .. ':x:group_of', unpack(ids))
  end
end

-- Removes the records of an earlier queue with this name, which another client has deleted: its hash had x:groups, and this
-- one does not have it yet. A dead-letter queue has records of groups without x:groups. Without the right to UNLINK, an
-- admission removes the records of its group.
local function begin_groups(zset, hash)
  redis.call('HSET', hash, 'x:groups', '1')
  redis.pcall('UNLINK', zset .. ':x:admitted', zset .. ':x:held_back')
  if redis.pcall('ZCARD', zset) == 0 then
    redis.pcall('UNLINK', zset .. ':x:group_of')
  end
end

-- Returns whether another client has shown a message that is held back: it was received, and its score is a lease. One that
-- putting_off.lua holds back again was received before that.
local function was_shown(zset, hash, id)
  return (redis.call('HGET', hash, id .. ':rc') or '0') ~= '0' and group_of(zset, id) ~= '0'
end

-- Makes a message due that is held back, unless another client has shown it. It is due from `earliest` on, by default now,
-- so behind those of other groups that are due already: groups take turns. In the order of the writes, a cut leaves the
-- message in both lists, and a sweep repeats this.
local function admit_message(zset, hash, group, id, earliest)
  local member = group .. '\0' .. id
  redis.call('ZADD', zset .. ':x:admitted', '0', member)
  if not was_shown(zset, hash, id) then
    local time = redis.call('TIME')
    local due = math.max(group_of(zset, id) or 0, earliest or time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call('ZADD', zset, 'XX', string.format('%.0f', due), id)
  end
  redis.call('ZREM', zset .. ':x:held_back', member)
end

-- Returns the first members of a group in one of the lists.
local function members_of(list, group, most)
  return redis.call('ZRANGEBYLEX', list, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', '0', most)
end

-- Returns the first message of a group in one of the lists that is in the queue; or nothing. Removes the records of those
-- before it, however many, and returns their number too.
local function first_of_group(zset, list, group)
  local page, removed, first = '1', 0, nil
  repeat
    local members, gone = members_of(list, group, page), nil
    for at, member in ipairs(members) do
      local id = string.sub(member, #group + 2)
      if not is_gone(zset, id) then
        first = id
        break
      end
      gone = gone or {}
      gone[at] = id
    end
    forget_members(zset, list, members, gone)
    removed, page = removed + (gone and #gone or 0), math.min(50 * page, 1000)
  until first or #members == 0
  return first, removed
end

-- Returns how many more messages of a group may be admitted. Removes the records of messages that are gone, however many.
local function room_of(zset, group)
  local list, room, from = zset .. ':x:admitted', most_of(group), '[' .. group .. '\0'
  local page = room == 1 and '1' or room
  while room > 0 do
    local members = redis.call('ZRANGEBYLEX', list, from, '(' .. group .. '\1', 'LIMIT', '0', page)
    if #members == 0 then
      return room
    end
    local gone, ids
    for _, member in ipairs(members) do
      local id = string.sub(member, #group + 2)
      if is_gone(zset, id) then
        gone, ids = gone or {}, ids or {}
        gone[#gone + 1], ids[#ids + 1] = member, id
      else
        room = room - 1
      end
    end
    forget_members(zset, list, gone, ids)
    from, page = '(' .. members[#members], math.min(50 * page, 1000)
  end
  return math.max(room, 0)
end

-- Admits messages of a group while there is room. Returns how much room is left: then no message of it is held back. Also
-- returns how many it has admitted, and of how many that are gone it has removed the records from x:held_back. `earliest` is
-- as above.
local function admit(zset, hash, group, earliest)
  local room, number, removed = room_of(zset, group), 0, 0
  while room > number do
    local id, gone = first_of_group(zset, zset .. ':x:held_back', group)
    removed = removed + gone
    if not id then
      return room - number, number, removed
    end
    admit_message(zset, hash, group, id, earliest)
    number = number + 1
  end
  return 0, number, removed
end

-- Returns false while the slot of the keys is moved, if one of them may be on the other node: there it is missing here, and
-- must not be made. Then a sweep admits the next message. Users of a single server may lack the right to EXISTS.
local function has_local_lists(zset)
  local found = redis.pcall('EXISTS', zset, zset .. ':x:admitted', zset .. ':x:held_back', zset .. ':x:group_of')
  return type(found) ~= 'table' or not (string.find(found.err, 'local key', 1, true)
    or string.find(found.err, 'undeclared', 1, true))
end

-- After a message has left the queue: removes its records, and admits the next one of its group, if there is one.
-- `earliest` is as above.
local function leave_group(zset, hash, id, earliest)
  local _, group = group_of(zset, id)
  if not group then
    return
  end
  forget_group(zset, group, id)
  if members_of(zset .. ':x:held_back', group, '1')[1] and has_local_lists(zset) then
    admit(zset, hash, group, earliest)
  end
end
