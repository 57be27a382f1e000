-- Returns the keys that match a pattern; one step of a walk through the database.
--
-- KEYS[1] queues   set      the names of all queues; not read: on a cluster it selects the node
-- ARGV[1] cursor   string   the cursor of SCAN; '0' = the first step
-- ARGV[2] pattern  string   the pattern, as for SCAN
--
-- returns {the next cursor, '0' at the end; {key ...}}
-- errors  none
-- source  none in Node

local queues = KEYS[1]
local cursor, pattern = ARGV[1], ARGV[2]

return redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', '1000')
