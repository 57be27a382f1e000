-- Gives messages that are not in flight a new id. Score, body and counters stay the same.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1...] renamed strings     id, sent time in us for the new id, 22 random characters for it, id ...
--
-- returns how many have a new id
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include reserved.lua
-- @include full.lua
-- @include id.lua
-- @include due.lua

local hash, zset = KEYS[1], KEYS[2]
local renamed = ARGV

local now, number = server_time_ms(), 0
allow_removal(zset, hash)
for at = 1, #renamed, 3 do
  local id, new = renamed[at], base36(tonumber(renamed[at + 1])) .. renamed[at + 2]
  local score = redis.call('ZSCORE', zset, id)
  local values = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr', id .. ':meta')
  local in_flight = values[2] and score and tonumber(score) > now
  if score and values[1] and not is_reserved(id) and not in_flight and not redis.call('ZSCORE', zset, new) then
    for place, ending in ipairs({'', ':rc', ':fr', ':meta'}) do
      if values[place] then
        redis.call('HSET', hash, new .. ending, values[place])
      end
    end
    redis.call('ZADD', zset, score, new)
    number = number + remove_message(zset, hash, id)
    redis.call('HDEL', hash, id .. ':meta') -- remove_message removes it only from ids without capitals
  end
end
return number
