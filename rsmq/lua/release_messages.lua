-- Makes messages visible now, where they stood by their sent time, each given its id or its receipt,
-- of one queue or several.
--
-- KEYS[1...] queues    hash, sorted set  of each queue the two keys
-- ARGV[1...] messages  strings           of each queue how many messages, and of each id and count
--                                        as in change_message_visibility.lua, and the ms when it
--                                        was sent; '' = not known
--
-- returns a digit for each message: 1 it was released, 0 it is not in the queue, 2 it was received
--         again since
-- errors  QUEUENOTFOUND; then nothing is changed in any queue
-- source  none in Node
-- @include _time.lua
-- @include _attributes.lua
-- @include _due.lua
-- @include _variadic.lua
-- @include _receipts.lua

local queues = KEYS
local messages = ARGV

for at = 1, #queues, 2 do
  if not queue(queues[at]) then
    return queue_not_found(queues[at])
  end
  allow_when_full(queues[at + 1]) -- also fails on a key of another type
end

local now = server_time_ms()
local told, from = {}, 1
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local number = tonumber(messages[from])
  local members = {}
  for each, place in ipairs(fitting(hash, zset, messages, from + 1, number, 3, told)) do
    local sent = tonumber(messages[place + 2]) or now
    members[2 * each - 1], members[2 * each] = digits(math.min(sent, now)), messages[place]
  end
  variadic('ZADD', zset, members)
  from = from + 1 + 3 * number
end
return table.concat(told)
