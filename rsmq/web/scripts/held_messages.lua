-- Returns when messages that a consumer has received are visible again.
--
-- KEYS[1] hash         hash        the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set  the queue's message ids
-- ARGV[1...] receipts  strings     id and receive count of each message, at least one
--
-- returns {ms now, for each message its score}; nil for one that was deleted, moved, or received again
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include time_ms.lua

local hash, zset = KEYS[1], KEYS[2]
local receipts = ARGV

local scores = {digits(server_time_ms())}
for at = 1, #receipts, 2 do
  local id, count = receipts[at], receipts[at + 1]
  scores[#scores + 1] = redis.call('HGET', hash, id .. ':rc') == count and redis.call('ZSCORE', zset, id)
end
return scores
