-- Returns how many receives of messages began no handler call.
--
-- KEYS[1] hash         hash        the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set  the queue's message ids
-- ARGV[1...] ids       strings     the messages' ids
--
-- returns {number of each message}
-- errors  none
-- source  none in Node
-- @include unbegun.lua

local hash, zset = KEYS[1], KEYS[2]
local ids = ARGV

return unbegun_receives(zset, hash, ids)
