-- Deletes fields of the hash of copies: the digests of messages that have arrived from another server and
-- can't be added a second time, or the facts about a run that has ended. Deletes the whole hash if nothing
-- but its mark is left.
--
-- KEYS[1] hash       hash     the queue's attributes, bodies and counters
-- KEYS[2] copied     hash     digests of the messages that were copied, and facts about the copy
-- ARGV[1] run_field  string   the field of the hash that says which run may change it; '' = any may
-- ARGV[2] run        string   the value of that field
-- ARGV[3...] fields  strings  the fields to delete
--
-- returns how many fields are left; 0 if the hash was deleted
-- errors  RUNREPLACED; then nothing is deleted. Without a field of a run, a missing hash is an empty one
-- source  none in Node
-- @include copies.lua
-- @include variadic.lua

local hash, copied = KEYS[1], KEYS[2]
local run_field, run = ARGV[1], ARGV[2]
local fields = ARGV

if not is_current_run(copied, hash, run_field, run) then
  return redis.error_reply('RUNREPLACED ' .. copied)
end
local names = {}
for at = 3, #fields do
  names[#names + 1] = fields[at]
end
variadic('HDEL', copied, names)
local left = redis.call('HLEN', copied)
if left == 1 and redis.call('HEXISTS', copied, 'created') == 1 then
  redis.call('UNLINK', copied)
  return 0
end
return left
