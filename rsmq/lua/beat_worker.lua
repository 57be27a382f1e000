-- Says that a worker is alive.
--
-- KEYS[1] workers   hash     who is alive
-- KEYS[2] held      hash     what the worker of this name holds, as in fragments/held.lua
-- ARGV[1] name      string   the worker's name
-- ARGV[2] token     string   who says it
-- ARGV[3] ttl       integer  ms for which it counts as alive without a beat
-- ARGV[4] lifetime  integer  ms for which it is remembered after that
-- ARGV[5] info      string   what it says of itself, JSON
--
-- returns 1
-- errors  WORKERREPLACED
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include lifetime.lua
-- @include workers.lua

local workers, held = KEYS[1], KEYS[2]
local name, token, ttl, lifetime, info = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if not has_name(held, token) then
  return redis.error_reply('WORKERREPLACED ' .. held)
end
redis.call('HDEL', workers, '') -- no worker has this name: when memory is full, it allows the next
redis.call('HSET', workers, name, digits(server_time_ms() + ttl) .. ':' .. token .. ':' .. info)
keep_for(workers, lifetime)
keep_for(held, lifetime)
return 1
