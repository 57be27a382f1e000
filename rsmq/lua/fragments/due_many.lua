-- Many visible messages, of one queue or several.
-- @include dead_letters.lua
-- @include expired.lua
-- @include variadic.lua

-- Returns up to `want` visible messages, with bodies of at most `room` bytes in total; if `first`,
-- the first body may be larger. In the result, `told` has the id and body of each message. `again`
-- has, for each message that was received before, its index among them, its receive count including
-- this receive, and the time of its first receive as stored. `cleared` is how many other messages
-- were moved or removed. The messages are not changed, and are within the limits of the queue, whose field x:throttle
-- is `limits`; `throttle` is then what is left of them. `pops` is whether they are popped. Ghost ids among them are handled as by
-- first_due, messages beyond the limit of a policy `dead` are moved, and those that `expires` names are
-- removed or moved. A call moves and removes at most 1,000 other messages. With `in_order`, those of a group that are due
-- before an earlier one are held back again.
local function due_messages(zset, hash, now, want, room, first, dead, expires, limits, pops, in_order)
  local told, again, gone = {}, {}, {}
  local due = {told = told, again = again, number = 0, size = 0, cleared = 0}
  if limits then
    -- @include throttle.lua
    due.throttle = open_throttle(zset, hash, limits, now, want, pops)
    want = due.throttle and due.throttle.room or want
  end
  local number, stepped_over, cleared, page, largest = 0, 0, 0, 8, 0
  while number < want and stepped_over < 1000 and cleared < 1000 do
    page = math.min(page * 2, want - number, 1000 - cleared, math.floor((room - due.size) / (largest + 1)))
    local found = redis.call('ZRANGEBYSCORE', zset, '-inf', digits(now),
      'LIMIT', number + stepped_over, math.max(page, 1))
    local names, ids = {}, #found
    if ids == 0 then
      break
    end
    for each = 1, ids do
      local id = found[each]
      names[2 * each - 1], names[2 * each] = id, id .. ':rc'
    end
    local values = redis.call('HMGET', hash, unpack(names))
    for each = 1, ids do
      local id, body, count = found[each], values[2 * each - 1], values[2 * each]
      local is_put_off = false
      if in_order and body and string.sub(id, -2) == 'Gr' then
        -- @include putting_off.lua
        is_put_off = put_off(zset, hash, id, now)
      end
      local reserved = (#id < 10 or string.byte(id) == 120) and is_reserved(id)
      body = not reserved and body
      if not body and not reserved and in_progress(zset, id, now) then
        stepped_over = stepped_over + 1
      elseif is_put_off then
        cleared = cleared + 1
        due.cleared = cleared
      elseif not body then
        remove_message(zset, hash, id)
        gone[#gone + 1] = id
        cleared = cleared + 1
        due.cleared = cleared
      elseif dead and is_dead(zset, hash, id, whole(count), dead) then
        transfer(zset, hash, dead, id, digits(now))
        gone[#gone + 1] = id
        cleared = cleared + 1
        due.cleared = cleared
      elseif expires and is_expired(zset, id, now, expires) then
        expire(zset, hash, id, now, expires)
        gone[#gone + 1] = id
        cleared = cleared + 1
        due.cleared = cleared
      elseif #body > room - due.size and not (first and number == 0) then
        due.size = room -- so that no later message is added
        note_left(zset, hash, gone, now)
        return due
      else
        number = number + 1
        told[2 * number - 1], told[2 * number] = id, body
        due.number, due.size = number, due.size + #body
        if #body > largest then
          largest = #body
        end
        if count then
          again[#again + 1], again[#again + 2], again[#again + 3] =
            number, whole(count) + 1, redis.call('HGET', hash, id .. ':fr')
        end
      end
    end
  end
  note_left(zset, hash, gone, now) -- last, since it may add a message between those that were read
  return due
end

-- Returns the ids of those of these messages that were received before.
local function received_before(due)
  local ids = {}
  for each = 1, #due.again, 3 do
    ids[#ids + 1] = due.told[2 * due.again[each] - 1]
  end
  return ids
end

-- Returns a list with the keys, the stored vt and the visible messages of each queue, with priority
-- in the order of the queues; or nil and the refusal. It receives nothing. Commands that might fail
-- later are tried first. With `extends`, the next messages of their groups are received too. `first` is whether the first body may be larger than the room, `by_vt`
-- whether the stored vt is needed, `pops` whether the messages are popped.
local function due_in_order(queues, namespace, now, most, room, first, by_vt, pops, extends)
  local found, to, nothing = {}, digits(now), {told = {}, again = {}, number = 0, size = 0}
  for at = 1, #queues, 2 do
    local hash, zset = queues[at], queues[at + 1]
    local stored = queue(hash, 'x:dlq', 'x:max', 'x:keep', 'x:limited', 'x:throttle')
    if not stored then
      return nil, queue_not_found(hash)
    end
    if by_vt and not stored_ms(stored[1]) then
      return nil, no_number('vt', stored[1])
    end
    local of = {hash = hash, zset = zset, vt = stored[1], due = nothing}
    found[#found + 1] = of
    of.any = redis.call('ZRANGEBYSCORE', zset, '-inf', to, 'LIMIT', '0', '1')[1]
    if of.any then -- most of many queues are empty, and need no check of rights
      allow_removal(zset, hash)
      of.dead = policy(namespace, zset, stored[4], stored[5], stored[7])
      of.expires = expiry(namespace, zset, hash, stored[6], stored[7])
      of.limits, of.limited, of.in_order = stored[8], stored[7], extends or stored[7] and stored[7] ~= '1'
    end
  end
  for _, of in ipairs(found) do
    if of.any and room > 0 then
      of.due = due_messages(of.zset, of.hash, now, most, room, first, of.dead, of.expires, of.limits, pops,
        of.in_order)
      if extends then
        -- @include extending.lua
        extend_groups(of, most, room, now)
      end
      most, room = most - of.due.number, room - of.due.size
      first = first and of.due.number == 0
    end
  end
  return found
end

-- Returns 1 if one of these queues still has a visible message that may be received now, else 0; or if only limits
-- prevent that, {place of a queue, ms as throttled_ms returns them, place ...}.
local function more_due(found, now)
  local throttled = {}
  for at, of in ipairs(found) do
    if of.any and redis.call('ZRANGEBYSCORE', of.zset, '-inf', digits(now), 'LIMIT', '0', '1')[1] then
      local ms = of.due.throttle and of.due.throttle:ms(now) or 0
      if ms == 0 then
        return 1
      end
      throttled[#throttled + 1], throttled[#throttled + 2] = at, ms
    end
  end
  return throttled[1] and throttled or 0
end

-- Receives visible messages: raises their receive counts, stores the time, and hides them until the
-- score.
local function deliver(hash, zset, due, this_time, score)
  local values, members = {}, {}
  local told, again = due.told, due.again
  for each = 1, due.number do
    local id = told[2 * each - 1]
    values[4 * each - 3], values[4 * each - 2] = id .. ':rc', '1'
    values[4 * each - 1], values[4 * each] = id .. ':fr', this_time
    members[2 * each - 1], members[2 * each] = score, id
  end
  for each = 1, #again, 3 do
    local last, count = 4 * again[each], again[each + 1]
    again[each + 2] = count > 1 and again[each + 2] or this_time -- as in receive_message.lua
    values[last - 2], values[last] = digits(count), again[each + 2]
  end
  if due.number > 0 then
    if due.throttle then
      due.throttle:use(due, tonumber(score))
    end
    add_to(hash, 'totalrecv', due.number)
    variadic('HSET', hash, values)
    variadic('ZADD', zset, members)
  end
end
