-- Renews a worker's sign of life.
--
-- KEYS[1] workers    hash     workers by name, as in fragments/workers.lua
-- KEYS[2] in_flight  hash     the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] name       string   the worker's name
-- ARGV[2] token      string   token of the calling worker
-- ARGV[3] ttl        integer  ms for which it counts as alive without another heartbeat
-- ARGV[4] lifetime   integer  ms for which both keys live after the last heartbeat
-- ARGV[5] info       string   its description of itself, JSON
--
-- returns 1
-- errors  WORKERREPLACED
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include lifetime.lua
-- @include workers.lua

local workers, in_flight = KEYS[1], KEYS[2]
local name, token, ttl, lifetime, info = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if not has_name(in_flight, token) then
  return redis.error_reply('WORKERREPLACED ' .. in_flight)
end
redis.call('HDEL', workers, '') -- no worker has this name: when memory is full, it allows the next
redis.call('HSET', workers, name, digits(server_time_ms() + ttl) .. ':' .. token .. ':' .. info)
keep_for(workers, lifetime)
keep_for(in_flight, lifetime)
return 1
