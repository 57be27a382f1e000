-- Removes messages, each given its id or its receipt, of one queue or several.
--
-- KEYS[1...] queues    hash, sorted set  of each queue the two keys
-- ARGV[1...] messages  strings           of each queue how many messages, and of each id and count,
--                                        as in delete_message.lua
--
-- returns a digit for each message: 1 it was removed, 0 it is not in the queue, 2 it was received
--         again since
-- errors  none: a missing queue has no such message
-- source  none in Node; what is left is what npm rsmq 0.12.4 deleteMessage leaves of each
-- @include _time.lua
-- @include _due.lua
-- @include _variadic.lua
-- @include _receipts.lua

local queues = KEYS
local messages = ARGV

for at = 1, #queues, 2 do
  allow_removal(queues[at + 1], queues[at]) -- also fails on a key of another type
end

local told, from = {}, 1
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local number = tonumber(messages[from])
  local ids = {}
  for each, place in ipairs(fitting(hash, zset, messages, from + 1, number, 2, told)) do
    ids[each] = messages[place]
  end
  variadic('ZREM', zset, ids)
  variadic('HDEL', hash, fields_of(ids))
  from = from + 1 + 2 * number
end
return table.concat(told)
