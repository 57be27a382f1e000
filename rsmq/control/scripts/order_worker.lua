-- Stores an order to a live worker, or removes one. The worker reads its orders with its sign of life.
--
-- KEYS[1] workers    hash     workers by name, each 'expiry ms:token:description as JSON'
-- KEYS[2] in_flight  hash     the worker's messages in flight by id, its token under '', and its orders under ':orders':
--                             'ms of the last end:JSON' with {value, ends (ms)} by order; under ':running' its report
-- ARGV[1] name       string   the worker's name
-- ARGV[2] order      string   pause, concurrency, running or stop
-- ARGV[3] value      string   its value; '' without one
-- ARGV[4] lifetime   integer  ms after which it ends; '' = it is removed
--
-- returns 1, or 0 if no worker of this name is alive
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local workers, in_flight = KEYS[1], KEYS[2]
local name, order, value, lifetime = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now = server_time_ms()
local expires, token = string.match(redis.call('HGET', workers, name) or '', '^(%d+):(%w*):')
if not expires or tonumber(expires) <= now or redis.call('HGET', in_flight, '') ~= token then
  return 0
end
local stored = string.match(redis.call('HGET', in_flight, ':orders') or '', '^%d+:(.*)$')
local orders, last = cjson.decode(stored or '{}'), now
orders[order] = lifetime ~= '' and {value = value, ends = digits(now + lifetime)} or nil
for _, each in pairs(orders) do
  last = math.max(last, tonumber(each.ends))
end
redis.call('HDEL', in_flight, ':', order == 'running' and ':running' or ':') -- when memory is full, it allows the next
redis.call('HSET', in_flight, ':orders', digits(last) .. ':' .. cjson.encode(orders))
return 1
