-- Messages that are held back, since another message of their group is admitted: groups.lua has their records.
-- @include local_keys.lua
-- @include was_received.lua

-- Returns the group of a message, and, if it is held back, the ms from which it is due. A message that was received is
-- not held back, whichever client has shown it, but for one that putting_off.lua has held back again. A user may lack the right to the records; then no message has a group. Fails while
-- the slot of the keys is moved, if one that is missing may be on the other node.
local function group_and_due(zset, hash, id)
  if string.sub(id, -2) ~= 'Gr' then
    return
  end
  local record, place = redis.pcall('HGET', zset .. ':x:group_of', id), nil
  local due, group
  if type(record) == 'string' then
    due, group = string.match(record, '^(%d+):(.+)$')
    place = group and redis.pcall('ZSCORE', zset .. ':x:held_back', group .. '\0' .. id)
    if type(place) == 'string' then
      return group, (due == '0' or not was_received(hash, id)) and due or nil
    end
  end
  require_local_beside(zset, ':x:group_of')
  require_local_beside(zset, ':x:held_back')
  return type(place) ~= 'table' and group or nil
end

-- Returns the ms from which a message is due that is held back; nothing for any other message.
local function due_of_held_back(zset, hash, id)
  local _, due = group_and_due(zset, hash, id)
  return due
end

-- Puts {error or nil, group, 1 if it is held back, else 0} in place of the errors of messages with a group. It has for
-- each id the error of a message that waits for a retry, or false.
local function add_groups(zset, hash, ids, errors)
  for each, id in ipairs(ids) do
    local group, due = group_and_due(zset, hash, id)
    if group then
      errors[each] = {errors[each], group, due and 1 or 0}
    end
  end
end

-- Returns the state of a hidden message. `failure` is what add_groups has left of it.
local function hidden_state(failure, count)
  if type(failure) == 'table' then
    if failure[3] == 1 then
      return 'held_back'
    end
    failure = failure[1]
  end
  return failure and 'retrying' or count and 'in_flight' or 'delayed'
end

-- Returns those of the ids in the result of fitting that are not held back, and their places. The others stay as they
-- are: it changes their answers to 0. The place of an id divided by `stride`, plus `before`, is the index of its answer.
local function except_held_back(zset, hash, ids, places, answers, before, stride)
  local others, other_places = {}, {}
  for each, id in ipairs(ids) do
    if due_of_held_back(zset, hash, id) then
      answers[before + places[each] / stride] = '0'
    else
      others[#others + 1], other_places[#other_places + 1] = id, places[each]
    end
  end
  return others, other_places
end
