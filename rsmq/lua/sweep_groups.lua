-- Examines messages that are held back, from a position on; one step of a walk. Admits messages of groups that have none,
-- such as after a delete by another client, and keeps the scores of the others a day ahead.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[4] held_back  sorted set  the messages that are held back
-- KEYS[5] records    hash        the group of each message
-- ARGV[1] from       string      the position: the last member that was examined; '' = the first step
--
-- returns {position or nil at the end, number of messages that were admitted}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include sweeping_groups.lua

local hash, zset, admitted, held_back, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local from = ARGV[1]

if not queue(hash) then
  return queue_not_found(hash)
end
allow_sweep(zset, admitted, held_back, records)
local position, number = sweep_step(zset, hash, admitted, held_back, records, from, server_time_ms(), true)
return {position, number}
