-- Checks some nodes of a flow, and plans its next check.
--
-- KEYS[1] key       hash        the flow, as in fragments/flows.lua
-- KEYS[2] due       sorted set  the schedules and the unfinished flows by the ms of the next attempt or check
-- ARGV[1] pause     integer     ms until the next check
-- ARGV[2] most      integer     the number of nodes at most
-- ARGV[3] lifetime  integer     ms for which the flow is stored at least
--
-- returns 1 the flow runs, 0 it has ended or there is none
-- errors  none
-- source  none in Node
-- @include checking.lua
-- @include digits.lua
-- @include flows.lua
-- @include jobs.lua
-- @include lifetime.lua

local key, due = KEYS[1], KEYS[2]
local pause, most, lifetime = ARGV[1], ARGV[2], ARGV[3]

local flow, member = open_flow(key, change_job), 'flow:' .. string.sub(key, -22)
if not flow then
  redis.call('ZREM', due, member)
  return 0
end
redis.call('ZADD', due, digits(flow.now + pause), member)
keep_for(key, lifetime)
local found = redis.call('HMGET', key, 'nodes', 'checked')
local first = tonumber(found[2]) or 0
local last = math.min(first + most, tonumber(found[1])) - 1
redis.call('HSET', key, 'checked', digits((last + 1) % found[1])) -- below the number of nodes, which may grow
check_nodes(flow, first, last)
return 1
