-- Removes messages, each given its id or its receipt, of one queue or several.
--
-- KEYS[1...] queues    hash, sorted set  of each group the two keys of its queue
-- ARGV[1...] messages  strings           the groups, as in fragments/receipts.lua
--
-- returns a digit for each message: 1 it was removed, 0 it is not in the queue, 2 it was received
--         again since
-- errors  none: a missing queue has no such message
-- source  none in Node; what is left is what npm rsmq 0.12.4 deleteMessage leaves of each
-- @include digits.lua
-- @include reserved.lua
-- @include due.lua
-- @include full.lua
-- @include variadic.lua
-- @include receipts.lua

local queues = KEYS
local messages = ARGV

for at = 1, #queues, 2 do
  allow_removal(queues[at + 1], queues[at]) -- also fails on a key of another type
end

local told, from = {}, 1
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local removed
  removed, from = fitting(hash, zset, messages, from, 1, 'ZREM', told)
  variadic('HDEL', hash, fields_of(removed))
end
return table.concat(told)
