-- Hides messages for a time from now, or shows them, by their ids or receipts, in one queue or several.
--
-- KEYS[1...] queues    hash, sorted set  for each group the two keys of its queue
-- ARGV[1] vt           integer           ms from now until they are visible
-- ARGV[2...] messages  strings           the groups, as in fragments/receipts.lua
--
-- returns a digit for each message: 1 if it was changed, 0 if it is not in the queue, 2 if it was
--         received again since
-- errors  QUEUENOTFOUND; then nothing is changed in any queue
-- source  none in Node; it writes what npm rsmq 0.12.4 changeMessageVisibility writes
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include full.lua
-- @include variadic.lua
-- @include receipts.lua

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
local answers, from = {}, 2
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local ids, places, members = nil, nil, {}
  local first, before = from, #answers
  ids, from, places = fitting(hash, zset, messages, from, 1, 'ZSCORE', answers)
  if messages[first + 1] == '' then -- given by their ids
    -- @include held_back.lua
    ids = except_held_back(zset, hash, ids, places, answers, before - first - 1, 1)
  end
  for each, id in ipairs(ids) do
    members[2 * each - 1], members[2 * each] = score, id
  end
  variadic('ZADD', zset, members)
end
return table.concat(answers)
