-- The next message to deliver, and the removal of a message.
-- @include digits.lua
-- @include leaving.lua
-- @include reserved.lua
-- @include variadic.lua

-- Returns whether a message may be from apalis-rsmq, whose messages also have a field `id:meta`.
-- Their ids have no capitals; nearly all other ids have some.
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

-- Returns all fields that messages may have.
local function fields_of(ids)
  local fields, last = {}, 0
  for each = 1, #ids do
    local id = ids[each]
    local short = #id < 10 or string.byte(id) == 120
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

-- Removes many messages, and admits the next ones of their groups.
local function remove_messages(zset, hash, ids)
  variadic('ZREM', zset, ids)
  variadic('HDEL', hash, fields_of(ids))
  note_left(zset, hash, ids)
end

-- Returns whether an id without a body (a ghost id) may be a send in progress: until ten seconds
-- after its score, since some clients send without MULTI.
local function in_progress(zset, id, now)
  return now - redis.call('ZSCORE', zset, id) < 10000
end

-- Returns the id of the first visible message, and its body, receive count and time of the first
-- receive as stored; or nothing. Skips ghost ids while they may be sends in progress; afterwards it
-- removes them, with their counters. A call removes and skips at most 1,000 each.
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
        note_left(zset, hash, {id})
        removed = removed + 1
      end
    end
    page = math.min(100, 1000 - stepped_over, 1000 - removed)
  end
end
