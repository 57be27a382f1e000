-- Makes messages visible that are as someone has read them, with their sent times as scores.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] strict    string      '1' = change nothing unless all are as they were
-- ARGV[2...] rows   strings     the messages, as in fragments/unchanged.lua
--
-- returns the number of messages that were released; -1 if nothing was changed because of strict
-- errors  QUEUENOTFOUND
-- source  none in Node; the messages are as after release_messages.lua
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua
-- @include queue.lua
-- @include expired.lua
-- @include variadic.lua
-- @include selected.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local strict = ARGV[1]
local rows = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
allow_when_full(zset)
local ids = selected_ids(hash, zset, rows, 2, strict)
if not ids then
  return -1
end
local now, members = server_time_ms(), {}
for each, id in ipairs(ids) do
  local due = due_of_held_back(zset, hash, id) and redis.call('ZSCORE', zset, id)
  members[2 * each - 1], members[2 * each] = due or digits(math.min(sent_ms(id) or now, now)), id
end
variadic('ZADD', zset, members)
return #ids
