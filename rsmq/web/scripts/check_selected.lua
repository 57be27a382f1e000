-- Counts the messages of a selection that are not as they were.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1...] rows   strings     the messages, as in fragments/unchanged.lua
--
-- returns their number
-- errors  none: a message of a missing queue is not as it was
-- source  none in Node
-- @include selected.lua

local hash, zset = KEYS[1], KEYS[2]
local rows = ARGV

return #rows / 3 - #selected_ids(hash, zset, rows, 1, '')
