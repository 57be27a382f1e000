-- Changes fields of a queue that are still as they were seen. Counters only of ids that are in the queue.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- ARGV[1...] changes  strings     field, what must stand there still, what is to stand there, field ...:
--                                 '=' and a value, or '' for none; 's' and 'ms' are the time
--
-- returns how many were changed; those of one id that stand together count as one
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua

local hash, zset = KEYS[1], KEYS[2]
local changes = ARGV

local now, number, last = server_time_ms(), 0, nil
local times = {s = digits(math.floor(now / 1000)), ms = digits(now)}
allow_removal(zset, hash)
for at = 1, #changes, 3 do
  local field, new = changes[at], changes[at + 2]
  local id = string.match(field, '^(.+):rc$') or string.match(field, '^(.+):fr$')
  local there = redis.call('HGET', hash, field)
  local alive
  if id then
    alive = redis.call('ZSCORE', zset, id)
  else
    alive = redis.call('HEXISTS', hash, 'vt') == 1
  end
  if alive and (there and '=' .. there or '') == changes[at + 1] then
    number = number + (last == (id or field) and 0 or 1)
    last = id or field
    if new == '' then
      redis.call('HDEL', hash, field)
    else
      redis.call('HSET', hash, field, times[new] or string.sub(new, 2))
    end
  end
end
return number
