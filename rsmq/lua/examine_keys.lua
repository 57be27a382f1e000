-- The names of keys that look as if they were a namespace's; one step of a walk through the database.
--
-- KEYS[1] queues   set      the names of all queues; not read: on a cluster it says which node to ask
-- ARGV[1] cursor   string   where the walk is, '0' = the first step
-- ARGV[2] pattern  string   what the keys look like
--
-- returns {the next cursor, '0' at the end; {key ...}}
-- errors  none
-- source  none in Node

local queues = KEYS[1]
local cursor, pattern = ARGV[1], ARGV[2]

return redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', '1000')
