-- Reads everything that says why a queue is not drained. Nothing is changed.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1] most     integer     how many hidden messages to look at, at most 4,000
-- ARGV[2] workers  string      the key of the registered workers, a hash that the user may lack the right to
--
-- returns {the attributes and counts of the queue, now ms, the workers as list_workers.lua returns them or nil, ms of its
--         last resume or nil, what limit_reached.lua returns, the states of hidden messages as sample_hidden.lua returns
--         them, what received_again.lua returns}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include describe.lua
-- @include hidden.lua
-- @include registered.lua
-- @include received_again.lua
-- @include limit_reached.lua

local hash, zset = KEYS[1], KEYS[2]
local most, workers = ARGV[1], ARGV[2]

local stored = queue(hash, 'x:resumed', 'modified')
if not stored then
  return queue_not_found(hash)
end
local now = server_time_ms()
local again, count, lost, repeated, received, first, last = received_again(hash, zset, digits(now), stored[1], stored[5])
return {
  describe(hash, zset), digits(now), registered_workers(zset, workers), stored[4],
  limit_reached(zset, hash, now),
  count_hidden_states(hash, zset, now, tonumber(most)), again or false, count, lost, repeated, received,
  first or false, last or false,
}
