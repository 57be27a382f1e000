-- Renews a worker's sign of life, and returns the orders to it.
--
-- KEYS[1] workers    hash     workers by name, as in fragments/workers.lua
-- KEYS[2] in_flight  hash     the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] name       string   the worker's name
-- ARGV[2] token      string   token of the calling worker
-- ARGV[3] ttl        integer  ms for which it counts as alive without another heartbeat
-- ARGV[4] lifetime   integer  ms for which both keys live after the last heartbeat
-- ARGV[5] info       string   its description of itself, JSON
-- ARGV[6] report     string   what it runs, JSON; '' = it was not asked
--
-- returns {ms now, its orders as JSON}, as order_worker.lua stores them; nil without one that has not ended
-- errors  WORKERREPLACED
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include lifetime.lua
-- @include workers.lua

local workers, in_flight = KEYS[1], KEYS[2]
local name, token, ttl, lifetime, info, report = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local stored = redis.call('HMGET', in_flight, '', ':orders')
if not has_name(in_flight, token, stored[1]) then
  return redis.error_reply('WORKERREPLACED ' .. in_flight)
end
local now = server_time_ms()
redis.call('HDEL', workers, '') -- no worker has this name: when memory is full, it allows the next
redis.call('HSET', workers, name, digits(now + ttl) .. ':' .. token .. ':' .. info)
keep_for(workers, lifetime)
keep_for(in_flight, lifetime)
if not stored[2] then
  return
end
local last, orders = string.match(stored[2], '^(%d+):(.*)$')
if not last or tonumber(last) <= now then
  redis.call('HDEL', in_flight, ':orders', ':running')
  return
elseif report == '' then
  redis.call('HDEL', in_flight, ':running')
else
  redis.call('HSET', in_flight, ':running', report)
end
return {digits(now), orders}
