-- Deletes the record of the messages that a dead worker had in flight, some time after its death. The
-- worker itself stays listed.
--
-- KEYS[1] workers    hash     workers by name, as in fragments/workers.lua
-- KEYS[2] in_flight  hash     the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] name       string   the worker's name
-- ARGV[2] token      string   its token
-- ARGV[3] delay      integer  ms after its time to live, until which the record is kept
--
-- returns 1 if the record was deleted, else 0
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include workers.lua

local workers, in_flight = KEYS[1], KEYS[2]
local name, token, delay = ARGV[1], ARGV[2], ARGV[3]

local expires, holder = registered_worker(workers, name)
if holder ~= token or expires + delay > server_time_ms() or redis.call('HGET', in_flight, '') ~= token then
  return 0
end
return redis.call('UNLINK', in_flight)
