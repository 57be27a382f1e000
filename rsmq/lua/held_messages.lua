-- What a worker holds; one step of a walk.
--
-- KEYS[1] held    hash    what the worker holds, as in fragments/held.lua
-- ARGV[1] cursor  string  where the walk is, '0' = the first step
--
-- returns {the next cursor, '0' at the end; {id, 'receive count:queue', id ...}}
-- errors  none
-- source  none in Node

local held = KEYS[1]
local cursor = ARGV[1]

return redis.call('HSCAN', held, cursor, 'COUNT', '1000')
