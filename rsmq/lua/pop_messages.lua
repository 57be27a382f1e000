-- Receives visible messages, those of the first queue before those of the next, and deletes them; in
-- each queue as pop_message.lua does.
--
-- KEYS[1...] queues    hash, sorted set  for each queue its two keys
-- ARGV[1] most         integer           the maximum number of messages
-- ARGV[2] room         integer           bytes of bodies at most
-- ARGV[3] namespace    string            first part of the keys of a dead-letter queue
-- ARGV[4] first        integer           '1' = the first body may be larger than that, else ''
--
-- returns {ms now, whether a queue still has a visible message, as more_due returns it, for each queue
--         {id, body, id ...} and {index, receive count, first-received ms, index ...} of those that were
--         received before}
-- errors  QUEUENOTFOUND; then nothing is received from any queue
-- source  none in Node; it leaves what npm rsmq 0.12.4 popMessage leaves of each
-- @include time_ms.lua
-- @include digits.lua
-- @include due.lua
-- @include totals.lua
-- @include due_many.lua

local queues = KEYS
local most, room, namespace, first = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now = server_time_ms()
local found, refusal = due_in_order(
  queues, namespace, now, tonumber(most), tonumber(room), first == '1', false, true)
if not found then
  return refusal
end

local answer = {digits(now), 0}
for at, of in ipairs(found) do
  local due, ids = of.due, {}
  for each = 1, due.number do
    ids[each] = due.told[2 * each - 1]
  end
  for each = 3, #due.again, 3 do
    due.again[each] = due.again[each - 1] > 1 and due.again[each] or answer[1]
  end
  if due.number > 0 then
    if due.throttle then
      due.throttle:use(due, now)
    end
    add_to(of.hash, 'totalrecv', due.number)
    remove_messages(of.zset, of.hash, ids)
  end
  answer[2 * at + 1], answer[2 * at + 2] = due.told, due.again
end
answer[2] = more_due(found, now)
return answer
