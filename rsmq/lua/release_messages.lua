-- Makes messages visible now, with their sent times as scores, by their ids or receipts, in one
-- queue or several.
--
-- KEYS[1...] queues    hash, sorted set  for each group the two keys of its queue
-- ARGV[1...] messages  strings           the groups, as in fragments/receipts.lua; with each id the ms of
--                                        its send, '' = unknown
--
-- returns a digit for each message: 1 if it was released, 0 if it is not in the queue, 2 if it was
--         received again since
-- errors  QUEUENOTFOUND; then nothing is changed in any queue
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include full.lua
-- @include variadic.lua
-- @include receipts.lua

local queues = KEYS
local messages = ARGV

for at = 1, #queues, 2 do
  if not queue(queues[at]) then
    return queue_not_found(queues[at])
  end
  allow_when_full(queues[at + 1]) -- also fails on a key of another type
end

local now = server_time_ms()
local answers, from = {}, 1
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local ids, places, members = nil, nil, {}
  local first, before = from, #answers
  ids, from, places = fitting(hash, zset, messages, from, 2, 'ZSCORE', answers)
  if messages[first + 1] == '' then -- given by their ids
    -- @include held_back.lua
    ids, places = except_held_back(zset, hash, ids, places, answers, before - first / 2, 2)
  end
  for each, id in ipairs(ids) do
    local sent = tonumber(messages[places[each] + 1]) or now
    members[2 * each - 1], members[2 * each] = digits(math.min(sent, now)), id
  end
  variadic('ZADD', zset, members)
end
return table.concat(answers)
