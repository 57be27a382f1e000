-- Deletes messages by their receipts, or hides them, if the visibility timeouts of these receives still run.
--
-- KEYS[1] hash          hash        the queue's attributes, bodies and counters
-- KEYS[2] zset          sorted set  the queue's message ids
-- ARGV[1] vt            integer     ms from now until they are visible; '' deletes them
-- ARGV[2...] receipts   strings     for each message its id and its receive count
--
-- returns for each message 1 if it was deleted or hidden, 0 if it is not in the queue, 2 if its timeout has ended or
--         it was received again since
-- errors  QUEUENOTFOUND
-- source  none in Node; it leaves what npm rsmq 0.12.4 deleteMessage or changeMessageVisibility leaves
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include due.lua
-- @include full.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local vt = ARGV[1]
local receipts = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
allow_removal(zset, hash)

local now, answers, removed = server_time_ms(), {}, {}
for at = 2, #receipts, 2 do
  local id, count = receipts[at], receipts[at + 1]
  local score = redis.call('ZSCORE', zset, id)
  if not score then
    answers[#answers + 1] = 0
  elseif redis.call('HGET', hash, id .. ':rc') ~= count or tonumber(score) <= now or due_of_held_back(zset, hash, id) then
    answers[#answers + 1] = 2
  else
    answers[#answers + 1] = 1
    if vt == '' then
      removed[#removed + 1] = id
    else
      redis.call('ZADD', zset, digits(now + vt), id)
    end
  end
end
if #removed > 0 then
  remove_messages(zset, hash, removed)
end
return answers
