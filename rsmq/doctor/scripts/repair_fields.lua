-- Changes fields of a queue that still have the expected values: counters only if their id is in the queue, other
-- fields only if the hash has a vt.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- ARGV[1...] changes  strings     field, expected value, new value, field ...; a value is '=' and a text, or '' if
--                                 the field is missing or to be removed; 's' and 'ms' are the server's time
--
-- returns how many were changed; consecutive changes of one id count as one
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
  local stored = redis.call('HGET', hash, field)
  local exists
  if id then
    exists = redis.call('ZSCORE', zset, id)
  else
    exists = redis.call('HEXISTS', hash, 'vt') == 1
  end
  if exists and (stored and '=' .. stored or '') == changes[at + 1] then
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
