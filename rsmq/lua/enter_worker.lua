-- Gives a worker its name, unless another one that is alive has it.
--
-- KEYS[1] workers   hash     who is alive
-- KEYS[2] held      hash     what the worker of this name holds, as in fragments/held.lua
-- ARGV[1] name      string   the worker's name
-- ARGV[2] token     string   who asks
-- ARGV[3] dead      string   the token of one that is known to have died; '' = none
-- ARGV[4] ttl       integer  ms for which it counts as alive without a beat
-- ARGV[5] lifetime  integer  ms for which it is remembered after that
-- ARGV[6] info      string   what it says of itself, JSON
--
-- returns nil if the name is the asker's now; else {ms for which the other one counts as alive, its
--         token, what it says of itself}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include lifetime.lua
-- @include workers.lua

local workers, held = KEYS[1], KEYS[2]
local name, token, dead, ttl, lifetime, info = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local now = server_time_ms()
local to, holder, says = worker_of(workers, name)
if to and to > now and holder ~= token and holder ~= dead then
  return {to - now, holder, says}
end
redis.call('HDEL', workers, '') -- no worker has this name: when memory is full, it allows the rest
local known = redis.call('HGETALL', workers)
for at = 1, #known, 2 do -- those that died long ago
  local ended = tonumber(string.match(known[at + 1], '^%d+') or 0)
  if ended + tonumber(lifetime) < now then
    redis.call('HDEL', workers, known[at])
  end
end
redis.call('HSET', workers, name, digits(now + ttl) .. ':' .. token .. ':' .. info)
redis.call('HSET', held, '', token)
keep_for(workers, lifetime)
keep_for(held, lifetime)
return false
