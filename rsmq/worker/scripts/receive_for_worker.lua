-- Receives messages that are due for a worker, from earlier queues first, and hides them. In each queue
-- it does what receive_message.lua does, except for the dead-letter policy, which the worker applies
-- itself. Records the messages as in flight. Tracked messages that are to be cancelled are removed.
--
-- KEYS[1] in_flight     hash              the worker's messages in flight, as in fragments/in_flight.lua
-- KEYS[2...] queues     hash, sorted set  for each queue its two keys
-- ARGV[1] token         string            token of the calling worker
-- ARGV[2] slots         integer           number of handler calls that can start at once
-- ARGV[3] room          integer           maximum total bytes of bodies; the first body may be larger
-- ARGV[4...] requests   strings           for each queue: ms to hide its messages, messages of a handler
--                                         call (as NUMBER:MS if a call may wait until it has so many), messages
--                                         that may be prefetched, maximum number of messages, and its name.
--                                         Then, if messages are tracked, the name of the worker and the places of
--                                         their queues
--
-- returns {ms now, a character for each queue and, after a blank each, ms of each f, g with the place
--         of each queue that may have messages with groups, and l with the place of each queue whose limits allow no
--         more, a colon and the ms as throttled_ms of fragments/throttle_state.lua returns them; then for each queue
--         {id, body, id ...}, {place, receive count, first-received ms, place ...} of those that were
--         received before, for each of these how many of its earlier receives began no call, and
--         {place, own number of retries, place ...}}. The lists are empty for a queue that was not read.
--         The character is . nothing more is due or allowed, + more may be due, p paused, m missing, - not read,
--         f further messages are due, and wait so many ms until their call is full
-- errors  WORKERREPLACED
-- source  none in Node; what is written is what npm rsmq 0.12.4 receiveMessage writes for each
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include full.lua
-- @include unbegun.lua
-- @include workers.lua
-- @include in_flight.lua
-- @include due_batches.lua
-- @include due_many.lua
-- @include limits.lua
-- @include expired.lua
-- @include full_batches.lua
-- @include tracked.lua

local in_flight = KEYS[1]
local queues = KEYS
local token, slots, room = ARGV[1], ARGV[2], ARGV[3]
local requests = ARGV

local states, found, fills, groups, places = {}, {}, '', '', {}
for at = 2, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local stored = queue(hash, 'x:paused', 'x:keep', 'x:limited', 'x:groups', 'x:throttle')
  groups = groups .. (stored and stored[7] and ' g' .. at / 2 or '')
  states[at / 2] = not stored and 'm' or stored[4] and 'p' or '-'
  if states[at / 2] == '-' then
    allow_removal(zset, hash)
    places[at / 2] = {hash = hash, zset = zset, limited = stored[6], groups = stored[7], limits = stored[8],
      expires = (stored[5] or stored[6])
        and expiry(namespace_of(zset, requests[5 * at / 2 + 3]), zset, hash, stored[5], stored[6])}
  end
end
local tracked = tracked_queues(queues, requests, 5 * #states + 4)
if not has_name(in_flight, token) then
  return redis.error_reply('WORKERREPLACED ' .. in_flight)
end
local now, has_found, left, bytes = server_time_ms(), false, tonumber(slots), tonumber(room)
for at, state in ipairs(states) do
  if state == '-' and bytes > 0 and (left > 0 or not has_found) then
    local size, max_messages, rest = plan_batches(queues[2 * at + 1], now, left, requests, 5 * at)
    local full = rest and math.min(requests[5 * at + 2], math.ceil(max_messages / size) * size) or max_messages
    local due = due_batches(places[at], now, max_messages, bytes, not has_found, size, full)
    found[at], has_found = due, has_found or due.number > 0
    left, bytes = math.max(left - math.ceil(due.number / size), 0), bytes - due.size
    states[at] = (due.number >= max_messages or bytes <= 0 or due.cleared >= 1000) and '+' or '.'
    if rest and due.number >= max_messages then
      states[at], fills = rest == '' and '.' or 'f', fills .. rest
    end
  end
end

local unbegun, retries = {}, {}
for at, due in pairs(found) do -- before the first delivery, which may not be repeated
  remove_cancelled(tracked, at, queues[2 * at], queues[2 * at + 1], due, now)
  unbegun[at] = #due.again > 0 and unbegun_receives(queues[2 * at + 1], queues[2 * at], received_before(due))
  retries[at] = own_retries(queues[2 * at + 1], places[at].limited, due.told)
end

local answer = {digits(now), ''}
for at in ipairs(states) do
  local due = found[at]
  if due and due.number > 0 then
    local vt, name = requests[5 * at - 1], requests[5 * at + 3]
    deliver_batches(places[at], now, digits(now + vt))
    record_in_flight(in_flight, due, name)
    begin_jobs(tracked, at, queues[2 * at + 1], due, unbegun[at], now, tonumber(vt))
  end
  answer[#answer + 1], answer[#answer + 2] = due and due.told or {}, due and due.again or {}
  answer[#answer + 1], answer[#answer + 2] = unbegun[at] or {}, retries[at] or {}
  groups = groups .. (due and due.throttle and ' l' .. at .. ':' .. digits(due.throttle:ms(now)) or '')
end
answer[2] = table.concat(states) .. fills .. groups
return answer
