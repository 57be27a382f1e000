-- Delivers messages that are due, of the first queue before those of the next, and hides them; in
-- each queue as receive_message.lua does.
--
-- KEYS[1...] queues    hash, sorted set  of each queue the two keys
-- ARGV[1] most         integer           how many messages at most
-- ARGV[2] room         integer           bytes of bodies at most, but for the first
-- ARGV[3] vt           integer           ms to hide them; '' = each queue's vt
-- ARGV[4] namespace    string            first part of the keys of a dead-letter queue
--
-- returns for each queue {id, body, receive count, first-received ms, id, body ...}
-- errors  QUEUENOTFOUND, INVALIDVALUE; then nothing is received from any queue
-- source  none in Node; what is written is what npm rsmq 0.12.4 receiveMessage writes for each
-- @include _time.lua
-- @include _attributes.lua
-- @include _due.lua
-- @include _dead_letters.lua
-- @include _due_many.lua
-- @include _variadic.lua

local queues = KEYS
local most, room, vt, namespace = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local hidden, dead = {}, {}
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local stored = queue(hash, 'x:dlq', 'x:max', 'totalrecv')
  if not stored then
    return queue_not_found(hash)
  end
  hidden[at] = vt ~= '' and tonumber(vt) or stored_ms(stored[1])
  if not hidden[at] then
    return no_number('vt', stored[1])
  end
  require_integer(hash, 'totalrecv', stored[6])
  allow_removal(zset, hash)
  dead[at] = policy(namespace, zset, stored[4], stored[5])
end

local now = server_time_ms()
local answer, left, space = {}, tonumber(most), tonumber(room)
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local due = left > 0 and space > 0 and due_messages(zset, hash, now, left, space, dead[at]) or {}
  local told, fields, members = {}, {}, {}
  for each, message in ipairs(due) do
    local id, body, count, first = unpack(message, 1, 4)
    fields[#fields + 1], fields[#fields + 2] = id .. ':rc', digits(count)
    if not first or count == 1 then -- as receive_message.lua
      first = digits(now)
      fields[#fields + 1], fields[#fields + 2] = id .. ':fr', first
    end
    members[2 * each - 1], members[2 * each] = digits(now + hidden[at]), id
    told[4 * each - 3], told[4 * each - 2], told[4 * each - 1], told[4 * each] =
      id, body, count, first
    space = space - #body
  end
  if #due > 0 then
    redis.call('HINCRBY', hash, 'totalrecv', #due)
    variadic('HSET', hash, fields)
    variadic('ZADD', zset, members)
  end
  left = left - #due
  answer[#answer + 1] = told
end
return answer
