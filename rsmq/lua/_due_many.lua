-- Many messages that are due, of one queue or several.

-- The receive count of a message before this receive, as stored; one that can't be raised fails
-- here, as it does where a single message is received.
local function count_before(hash, field, stored)
  if not stored then
    return 0
  end
  require_integer(hash, field, stored)
  return tonumber(stored)
end

-- Up to `want` due messages as lists of ids, bodies, receive counts with this time, and times of
-- the first receive, with bodies of at most `room` bytes in all, or one if it is the `first`.
-- Nothing is done to them; ghosts among them are healed as for a single one, and where a policy is
-- given, messages beyond its limit are moved. A call moves and removes at most 1,000 others.
local function due_messages(zset, hash, now, want, room, first, dead)
  local due = {ids = {}, bodies = {}, counts = {}, firsts = {}, number = 0, size = 0}
  local number, stepped_over, cleared, page, largest = 0, 0, 0, 8, 0
  while number < want and stepped_over < 1000 and cleared < 1000 do
    page = math.min(page * 2, want - number, 1000, math.floor((room - due.size) / (largest + 1)))
    local found = redis.call('ZRANGEBYSCORE', zset, '-inf', digits(now), 'WITHSCORES',
      'LIMIT', number + stepped_over, math.max(page, 1))
    local names, last = {}, 0
    for at = 1, #found, 2 do
      local id = found[at]
      names[last + 1], names[last + 2], names[last + 3] = id, id .. ':rc', id .. ':fr'
      last = last + 3
    end
    if last == 0 then
      return due
    end
    local values = redis.call('HMGET', hash, unpack(names))
    for at = 1, last, 3 do
      local id, body, size = names[at], values[at], values[at] and #values[at]
      local count = body and count_before(hash, names[at + 1], values[at + 1])
      if not body and now - found[(at - 1) / 3 * 2 + 2] < 10000 then
        stepped_over = stepped_over + 1
      elseif not body then
        remove_message(zset, hash, id)
        cleared = cleared + 1
      elseif dead and count >= dead.limit then
        transfer(zset, hash, dead, id, digits(now))
        cleared = cleared + 1
      elseif size > room - due.size and not (first and number == 0) then
        due.size = room -- nor is there room for any that comes later
        return due
      else
        number = number + 1
        due.ids[number], due.bodies[number] = id, body
        due.counts[number], due.firsts[number] = count + 1, values[at + 2]
        due.number, due.size, largest = number, due.size + size, math.max(largest, size)
      end
    end
  end
  return due
end

-- What is due in several queues, earlier ones first: a list of each queue's keys, stored vt and due
-- messages; or nil and the refusal. Nothing is received by this; what may fail has not failed.
local function due_in_order(queues, namespace, now, most, room)
  local found = {}
  for at = 1, #queues, 2 do
    local hash, zset = queues[at], queues[at + 1]
    local stored = queue(hash, 'x:dlq', 'x:max', 'totalrecv')
    if not stored then
      return nil, queue_not_found(hash)
    end
    require_integer(hash, 'totalrecv', stored[6])
    allow_removal(zset, hash)
    found[#found + 1] = {hash = hash, zset = zset, vt = stored[1],
      dead = policy(namespace, zset, stored[4], stored[5])}
  end
  local first = true
  for _, of in ipairs(found) do
    local want = room > 0 and most or 0
    of.due = due_messages(of.zset, of.hash, now, want, room, first, of.dead)
    most, room = most - of.due.number, room - of.due.size
    first = first and of.due.number == 0
  end
  return found
end
