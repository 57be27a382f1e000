-- Receives visible messages, those of the first queue before those of the next, and hides them; in
-- each queue as receive_message.lua does.
--
-- KEYS[1...] queues    hash, sorted set  for each queue its two keys
-- ARGV[1] most         integer           the maximum number of messages
-- ARGV[2] room         integer           bytes of bodies at most
-- ARGV[3] vt           integer           ms to hide them; '' = each queue's vt
-- ARGV[4] namespace    string            first part of the keys of a dead-letter queue
-- ARGV[5] first        integer           '1' = the first body may be larger than that, else ''
-- ARGV[6] extends      integer           '1' = the next messages of their groups too, else ''
--
-- returns {ms now, whether a queue still has a visible message, as more_due returns it,
--         {for each queue the ms for which its messages are hidden, 0 without messages},
--         for each queue {id, body, id ...} and {index, receive count, first-received ms,
--         index ...} of those that were received before}
-- errors  QUEUENOTFOUND, INVALIDVALUE; then nothing is received from any queue
-- source  none in Node; it writes what npm rsmq 0.12.4 receiveMessage writes for each
-- @include time_ms.lua
-- @include digits.lua
-- @include attributes.lua
-- @include due_many.lua

local queues = KEYS
local most, room, vt, namespace, first, extends = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local now = server_time_ms()
local found, refusal = due_in_order(
  queues, namespace, now, tonumber(most), tonumber(room), first == '1', vt == '', false, extends == '1')
if not found then
  return refusal
end

local this_time = digits(now)
local hidden = {}
local answer = {this_time, 0, hidden}
for at, of in ipairs(found) do
  hidden[at] = 0
  if of.due.number > 0 then
    hidden[at] = vt ~= '' and tonumber(vt) or stored_ms(of.vt)
    local extension = of.due.taken and #of.due.taken > 0
    if extension then
      -- @include extending.lua
      begin_extension(of)
      deliver(of.hash, of.zset, of.due, this_time, digits(now + hidden[at]))
      end_extension(of, now)
    else
      deliver(of.hash, of.zset, of.due, this_time, digits(now + hidden[at]))
    end
  end
  answer[2 * at + 2], answer[2 * at + 3] = of.due.told, of.due.again
end
answer[2] = more_due(found, now)
return answer
