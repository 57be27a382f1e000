-- Deletes messages by their ids or receipts, in one queue or several.
--
-- KEYS[1...] queues    hash, sorted set  for each group the two keys of its queue
-- ARGV[1...] messages  strings           the groups, as in fragments/receipts.lua
--
-- returns a digit for each message: 1 if it was deleted, 0 if it is not in the queue, 2 if it was
--         received again since
-- errors  none: a message of a missing queue counts as missing
-- source  none in Node; it leaves what npm rsmq 0.12.4 deleteMessage leaves of each
-- @include due.lua
-- @include full.lua
-- @include variadic.lua
-- @include receipts.lua
-- @include leaving.lua

local queues = KEYS
local messages = ARGV

for at = 1, #queues, 2 do
  allow_removal(queues[at + 1], queues[at]) -- also fails on a key of another type
end

local answers, from = {}, 1
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local removed
  removed, from = fitting(hash, zset, messages, from, 1, 'ZREM', answers)
  variadic('HDEL', hash, fields_of(removed))
  note_left(zset, hash, removed)
end
return table.concat(answers)
