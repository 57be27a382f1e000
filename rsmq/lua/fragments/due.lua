-- The message to be delivered next, and the removal of a message.

-- apalis-rsmq's messages have a field more, `id:meta`; their ids have no capitals, of which hardly
-- any other id has none.
local function may_have_meta(id)
  return not string.find(id, '%u')
end

local function remove_message(zset, hash, id)
  local removed = redis.call('ZREM', zset, id)
  if removed == 1 and not is_reserved(id) then
    redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr', may_have_meta(id) and id .. ':meta' or id)
  end
  return removed
end

-- All fields that messages may have.
local function fields_of(ids)
  local fields, last = {}, 0
  for each = 1, #ids do
    local id = ids[each]
    local short = #id < 10 or id >= 'x:' and id < 'x;'
    if not (short and is_reserved(id)) then
      fields[last + 1], fields[last + 2], fields[last + 3] = id, id .. ':rc', id .. ':fr'
      last = last + 3
      if may_have_meta(id) then
        last = last + 1
        fields[last] = id .. ':meta'
      end
    end
  end
  return fields
end

-- An id without a body is a ghost. Until ten seconds after its score it may be a send in progress:
-- some clients send without MULTI.
local function in_progress(zset, id, now)
  return now - redis.call('ZSCORE', zset, id) < 10000
end

-- Of the first message that is due: its id, and body, receive count and time of the first receive as
-- stored; or nothing.
-- Ghosts are stepped over while they may be sends in progress, then removed, with their counters. A
-- call removes and steps over at most 1,000 each.
local function first_due(zset, hash, now)
  local stepped_over, removed, page = 0, 0, 1
  while stepped_over < 1000 and removed < 1000 do
    local due = redis.call('ZRANGEBYSCORE', zset, '-inf', digits(now), 'LIMIT', stepped_over, page)
    if #due == 0 then
      return
    end
    for each = 1, #due do
      local id = due[each]
      local values = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
      local reserved = is_reserved(id)
      if values[1] and not reserved then
        return id, values
      elseif not reserved and in_progress(zset, id, now) then
        stepped_over = stepped_over + 1
      else
        remove_message(zset, hash, id)
        removed = removed + 1
      end
    end
    page = math.min(100, 1000 - stepped_over, 1000 - removed)
  end
end
