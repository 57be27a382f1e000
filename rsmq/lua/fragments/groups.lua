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

-- Returns whether another client has shown a message that is held back: it was received, and its score is a lease.
local function was_shown(hash, id)
  return (redis.call('HGET', hash, id .. ':rc') or '0') ~= '0'
end

-- Makes a message due that is held back, unless another client has shown it. It is due from `earliest` on, by default now,
-- so behind those of other groups that are due already: groups take turns. In the order of the writes, a cut leaves the
-- message in both lists, and a sweep repeats this.
local function admit_message(zset, hash, group, id, earliest)
  local member = group .. '\0' .. id
  redis.call('ZADD', zset .. ':x:admitted', '0', member)
  if not was_shown(hash, id) then
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
-- before it, at most 250; with more, it returns ''.
local function first_of_group(zset, list, group)
  local removed, page = 0, '1'
  while removed < 250 do
    local members = members_of(list, group, page)
    if #members == 0 then
      return
    end
    for _, member in ipairs(members) do
      local id = string.sub(member, #group + 2)
      if not is_gone(zset, id) then
        return id
      end
      forget_group(zset, group, id)
    end
    removed, page = removed + #members, '50'
  end
  return ''
end

-- Returns how many more messages of a group may be admitted. Removes the records of messages that are gone, at most some
-- 250; with more, it returns 0.
local function room_of(zset, group)
  local room, removed, from = most_of(group), 0, '[' .. group .. '\0'
  while room > 0 and removed < 250 do
    local members = redis.call('ZRANGEBYLEX', zset .. ':x:admitted', from, '(' .. group .. '\1', 'LIMIT', '0',
      removed > 0 and '50' or room)
    if #members == 0 then
      return room
    end
    for _, member in ipairs(members) do
      local id = string.sub(member, #group + 2)
      if is_gone(zset, id) then
        forget_group(zset, group, id)
        removed = removed + 1
      else
        room = room - 1
      end
    end
    from = '(' .. members[#members]
  end
  return math.max(room, 0)
end

-- Admits messages of a group while there is room. Returns how much room is left: then no message of it is held back. Also
-- returns how many it has admitted. `earliest` is as above.
local function admit(zset, hash, group, earliest)
  local room, number = room_of(zset, group), 0
  while room > number do
    local id = first_of_group(zset, zset .. ':x:held_back', group)
    if not id then
      return room - number, number
    elseif id == '' then
      break
    end
    admit_message(zset, hash, group, id, earliest)
    number = number + 1
  end
  return 0, number
end

-- Returns false while the slot of the keys is moved, if one of them may be on the other node: there it is missing here, and
-- must not be made. Then a sweep admits the next message. Users of a single server may lack the right to EXISTS.
local function has_local_lists(zset)
  local found = redis.pcall('EXISTS', zset, zset .. ':x:admitted', zset .. ':x:held_back', zset .. ':x:group_of')
  return type(found) ~= 'table' or not (string.find(found.err, 'local key', 1, true)
    or string.find(found.err, 'undeclared', 1, true))
end

-- After a message has left the queue: removes its records, and admits the next one of its group, if there is one.
local function leave_group(zset, hash, id)
  local _, group = group_of(zset, id)
  if not group then
    return
  end
  forget_group(zset, group, id)
  if members_of(zset .. ':x:held_back', group, '1')[1] and has_local_lists(zset) then
    admit(zset, hash, group)
  end
end
