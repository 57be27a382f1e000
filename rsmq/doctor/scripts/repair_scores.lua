-- Changes the scores of ids that still have the expected score.
--
-- KEYS[1] zset       sorted set  the queue's message ids
-- ARGV[1...] changes strings     id, expected score, new score or '' for now, id ...
--
-- returns how many were changed
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua

local zset = KEYS[1]
local changes = ARGV

local now, number = digits(server_time_ms()), 0
allow_when_full(zset)
for at = 1, #changes, 3 do
  local id, new = changes[at], changes[at + 2]
  if redis.call('ZSCORE', zset, id) == changes[at + 1] then
    number = number + 1
    redis.call('ZADD', zset, new == '' and now or new, id)
  end
end
return number
