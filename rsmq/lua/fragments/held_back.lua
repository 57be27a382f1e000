-- Messages that are held back, since another message of their group is admitted: groups.lua has their records.
-- @include local_keys.lua
-- @include was_received.lua

-- Returns the ms from which a message is due that is held back; nothing for any other message. A message that was
-- received is not held back, whoever has shown it. A user may lack the right to the records; then none is.
local function due_of_held_back(zset, hash, id)
  local record = string.sub(id, -2) == 'Gr' and redis.pcall('HGET', zset .. ':x:group_of', id)
  if type(record) == 'string' then
    local due, group = string.match(record, '^(%d+):(.+)$')
    local place = group and redis.pcall('ZSCORE', zset .. ':x:held_back', group .. '\0' .. id)
    if type(place) == 'string' then
      return not was_received(hash, id) and due or nil
    end
    record = place
  end
  if type(record) == 'table' then
    require_local_beside(zset, ':x:group_of')
    require_local_beside(zset, ':x:held_back')
  end
end

-- Puts 1 in place of the errors of messages that are held back. It has for each id the error of a message that waits for
-- a retry, or false.
local function mark_held_back(zset, hash, ids, errors)
  for each = 1, #ids do
    errors[each] = errors[each] or due_of_held_back(zset, hash, ids[each]) and 1 or false
  end
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
