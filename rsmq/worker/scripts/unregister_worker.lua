-- Unregisters a worker that has ended. Messages that are still in flight stay recorded, for a successor.
--
-- KEYS[1] workers    hash    workers by name, as in fragments/workers.lua
-- KEYS[2] in_flight  hash    the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] name       string  the worker's name
-- ARGV[2] token      string  token of the calling worker
--
-- returns the number of messages that are still in flight
-- errors  WORKERREPLACED
-- source  none in Node
-- @include workers.lua

local workers, in_flight = KEYS[1], KEYS[2]
local name, token = ARGV[1], ARGV[2]

if not has_name(in_flight, token) then
  return redis.error_reply('WORKERREPLACED ' .. in_flight)
end
redis.call('HDEL', workers, name)
redis.call('HDEL', in_flight, ':orders', ':running')
local left = redis.call('HLEN', in_flight) - 1
if left == 0 then
  redis.call('UNLINK', in_flight)
end
return left
