-- Messages of groups, of which one at a time is due; the others are held back, with a score a day ahead. Three keys
-- beside the queue: x:admitted and x:held_back have the messages of each group, x:group_of the group of each message. A
-- record counts only while its message is in the queue. docs/contributing/admission.md has the rules.

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

-- Makes a message due that is held back, unless another client has shown it. In the order of the writes, a cut leaves the message in both lists, and a sweep repeats this.
local function admit_message(zset, hash, group, id)
  local member = group .. '\0' .. id
  redis.call('ZADD', zset .. ':x:admitted', '0', member)
  if not was_shown(hash, id) then
    redis.call('ZADD', zset, 'XX', group_of(zset, id) or redis.call('TIME')[1] .. '000', id)
  end
  redis.call('ZREM', zset .. ':x:held_back', member)
end

-- Returns the first messages of a group in one of the lists: their ids.
local function first_of(list, group, most)
  local ids = redis.call('ZRANGEBYLEX', list, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', '0', most)
  for at, member in ipairs(ids) do
    ids[at] = string.sub(member, #group + 2)
  end
  return ids
end

-- Admits the next message of a group if there is room. Returns whether there still is: then it has no message that is
-- held back. A call removes the records of at most 1,000 messages that are gone; with more, there is no room yet.
local function admit(zset, hash, group)
  local list = zset .. ':x:admitted'
  for _, key in ipairs({list, zset .. ':x:held_back'}) do
    local ids = first_of(key, group, key == list and '1000' or '1')
    local read = 0
    while #ids > 0 do
      for _, id in ipairs(ids) do
        if is_gone(zset, id) then
          forget_group(zset, group, id)
        else
          if key ~= list then
            admit_message(zset, hash, group, id)
          end
          return false
        end
      end
      read = read + #ids
      if read >= 1000 then
        return false
      end
      ids = first_of(key, group, '100')
    end
  end
  return true
end

-- After a message has left the queue: removes its records, and admits the next one of its group.
local function leave_group(zset, hash, id)
  local _, group = group_of(zset, id)
  if group then
    forget_group(zset, group, id)
    admit(zset, hash, group)
  end
end
