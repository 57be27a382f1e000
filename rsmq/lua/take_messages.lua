-- Delivers messages that are due to a worker, of the first queue before those of the next, and hides
-- them; in each queue as receive_message.lua does, but for its dead-letter policy, which is the worker's
-- to obey. Notes what the worker holds.
--
-- KEYS[1] held         hash              what the worker holds, as in fragments/held.lua
-- KEYS[2...] queues    hash, sorted set  of each queue the two keys
-- ARGV[1] token        string            who asks
-- ARGV[2] slots        integer           how many jobs can be begun at once
-- ARGV[3] room         integer           bytes of bodies at most, but for the first
-- ARGV[4...] wants     strings           of each queue ms to hide its messages, messages of a job,
--                                        messages that may wait for a slot, messages at most, and name
--
-- returns {ms now, a character for each queue, of each queue that was looked at {id, body, id ...} and
--         {place, receive count, first-received ms, place ...} of those that were received before}; the
--         character is . nothing more is due, + there may be more, p paused, m missing, - not looked at
-- errors  WORKERREPLACED
-- source  none in Node; what is written is what npm rsmq 0.12.4 receiveMessage writes for each
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include due.lua
-- @include full.lua
-- @include totals.lua
-- @include dead_letters.lua
-- @include variadic.lua
-- @include workers.lua
-- @include held.lua
-- @include due_many.lua

local held = KEYS[1]
local queues = KEYS
local token, slots, room = ARGV[1], ARGV[2], ARGV[3]
local wants = ARGV

local states, found = {}, {}
for at = 2, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local stored = queue(hash, 'x:paused')
  states[at / 2] = not stored and 'm' or stored[4] and 'p' or '-'
  if states[at / 2] == '-' then
    allow_removal(zset, hash)
  end
end
if not has_name(held, token) then
  return redis.error_reply('WORKERREPLACED ' .. held)
end
local now, any = server_time_ms(), false
local left, bytes = tonumber(slots), tonumber(room)
for at, state in ipairs(states) do
  if state == '-' and bytes > 0 and (left > 0 or not any) then
    local size, ahead, most = wants[5 * at], wants[5 * at + 1], wants[5 * at + 2]
    most = math.min(most, left * size + ahead)
    local due = due_messages(queues[2 * at + 1], queues[2 * at], now, most, bytes, not any)
    found[at] = due
    any = any or due.number > 0
    left, bytes = math.max(left - math.ceil(due.number / size), 0), bytes - due.size
    states[at] = (due.number == most or bytes <= 0 or due.cleared >= 1000) and '+' or '.'
  end
end

local this_time = digits(now)
local answer = {this_time, table.concat(states)}
for at in ipairs(states) do
  local due = found[at]
  if due and due.number > 0 then
    local vt, name = wants[5 * at - 1], wants[5 * at + 3]
    deliver(queues[2 * at], queues[2 * at + 1], due, this_time, digits(now + vt))
    hold(held, due, name)
  end
  answer[#answer + 1], answer[#answer + 2] = due and due.told or {}, due and due.again or {}
end
return answer
