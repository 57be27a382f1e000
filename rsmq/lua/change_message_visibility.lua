-- Hides a message for a time from now, or shows it, by its id or its receipt.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] id     string      the message's id
-- ARGV[2] count  integer     only while its receive count is this; '' = in any case
-- ARGV[3] vt     integer     ms from now until it is visible
--
-- returns 1 if it was changed, 0 if it is not in the queue, 2 if it was received again since
-- errors  QUEUENOTFOUND
-- source  npm rsmq 0.12.4 changeMessageVisibility
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include full.lua

local hash, zset = KEYS[1], KEYS[2]
local id, count, vt = ARGV[1], ARGV[2], ARGV[3]

if not queue(hash) then
  return queue_not_found(hash)
end
if not redis.call('ZSCORE', zset, id) then
  return 0
end
if count ~= '' and redis.call('HGET', hash, id .. ':rc') ~= count then
  return 2
end
if count == '' and string.byte(id, -1) == 114 then -- a group's, as in fragments/leaving.lua
  -- @include held_back.lua
  if due_of_held_back(zset, hash, id) then
    return 0
  end
end
allow_when_full(zset)
redis.call('ZADD', zset, digits(server_time_ms() + vt), id)
return 1
