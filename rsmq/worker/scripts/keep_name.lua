-- Checks that a worker has its name in a cell, and lets the record of its messages live on.
--
-- KEYS[1] in_flight  hash     the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] token      string   token of the calling worker
-- ARGV[2] lifetime   integer  ms for which the key lives from now on
--
-- returns 1
-- errors  WORKERREPLACED
-- source  none in Node
-- @include lifetime.lua
-- @include workers.lua

local in_flight = KEYS[1]
local token, lifetime = ARGV[1], ARGV[2]

if not has_name(in_flight, token) then
  return redis.error_reply('WORKERREPLACED ' .. in_flight)
end
keep_for(in_flight, lifetime)
return 1
