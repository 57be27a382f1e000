-- Lists the messages that a worker has in flight; one step of a walk.
--
-- KEYS[1] in_flight  hash    the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] cursor     string  where the walk is, '0' = the first step
--
-- returns {the next cursor, '0' at the end; {id, 'receive count:queue', id ...}}
-- errors  none
-- source  none in Node

local in_flight = KEYS[1]
local cursor = ARGV[1]

return redis.call('HSCAN', in_flight, cursor, 'COUNT', '1000')
