-- Counts the hidden messages of a queue by state, of many a sample.
--
-- KEYS[1] hash  hash        the queue's attributes, bodies and counters
-- KEYS[2] zset  sorted set  the queue's message ids
-- ARGV[1] most  integer     how many to look at, at most 4,000
--
-- returns {hidden messages, how many were looked at, received ones among these without those that wait for a retry,
--         those that wait for a retry, those that are held back}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include hidden.lua

local hash, zset = KEYS[1], KEYS[2]
local most = ARGV[1]

if not queue(hash) then
  return queue_not_found(hash)
end
return count_hidden_states(hash, zset, server_time_ms(), tonumber(most))
