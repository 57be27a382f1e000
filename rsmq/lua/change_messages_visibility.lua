-- Hides messages for a time from now, or shows them, each given its id or its receipt, of one queue
-- or several.
--
-- KEYS[1...] queues    hash, sorted set  of each queue the two keys
-- ARGV[1] vt           integer           ms from now until they are visible
-- ARGV[2...] messages  strings           of each queue how many messages, and of each id and count,
--                                        as in change_message_visibility.lua
--
-- returns a digit for each message: 1 it was changed, 0 it is not in the queue, 2 it was received
--         again since
-- errors  QUEUENOTFOUND; then nothing is changed in any queue
-- source  none in Node; what is written is what npm rsmq 0.12.4 changeMessageVisibility writes
-- @include _time.lua
-- @include _attributes.lua
-- @include _due.lua
-- @include _variadic.lua
-- @include _receipts.lua

local queues = KEYS
local vt = ARGV[1]
local messages = ARGV

for at = 1, #queues, 2 do
  if not queue(queues[at]) then
    return queue_not_found(queues[at])
  end
  allow_when_full(queues[at + 1]) -- also fails on a key of another type
end

local score = digits(server_time_ms() + vt)
local told, from = {}, 2
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local number = tonumber(messages[from])
  local members = {}
  for each, place in ipairs(fitting(hash, zset, messages, from + 1, number, 2, told)) do
    members[2 * each - 1], members[2 * each] = score, messages[place]
  end
  variadic('ZADD', zset, members)
  from = from + 1 + 2 * number
end
return table.concat(told)
