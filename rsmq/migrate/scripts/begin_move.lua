-- Gives a run of a move the right to add messages to a queue. The run that had it loses it.
--
-- KEYS[1] hash       hash     the queue's attributes, bodies and counters
-- KEYS[2] copied     hash     digests of the messages that were copied, and facts about copies and moves
-- ARGV[1] run_field  string   the field of the hash that says which run may add messages
-- ARGV[2] run        string   the value of that field
-- ARGV[3] lifetime   integer  ms for which the hash is kept from now on
--
-- returns nothing
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include queue.lua
-- @include copies.lua

local hash, copied = KEYS[1], KEYS[2]
local run_field, run, lifetime = ARGV[1], ARGV[2], ARGV[3]

if not queue(hash) then
  return queue_not_found(hash)
end
if not is_of_queue(copied, hash) then
  reset_copies(copied, hash)
end
redis.call('HSET', copied, run_field, run)
redis.call('PEXPIRE', copied, lifetime)
