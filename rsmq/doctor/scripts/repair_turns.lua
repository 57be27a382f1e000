-- Puts turns that are so far ahead that no message explains them behind the last message of the queue, or now; one step.
--
-- KEYS[1] zset       sorted set  the queue's message ids
-- KEYS[2] rates      sorted set  times by key, as in fragments/rates.lua
-- KEYS[3] held_back  sorted set  the messages that are held back
--
-- returns how many were changed, at most 100
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include far_turns.lua
-- @include full.lua

local zset, rates, held_back = KEYS[1], KEYS[2], KEYS[3]

local last, limit = far_turns_from(zset, held_back)
local names = redis.call('ZRANGEBYSCORE', rates, limit, '+inf', 'LIMIT', '0', '100')
allow_when_full(rates)
for _, name in ipairs(names) do
  redis.call('ZADD', rates, digits(last * 1000), name)
end
return #names
