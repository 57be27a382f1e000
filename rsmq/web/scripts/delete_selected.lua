-- Deletes messages that are as someone has read them.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] strict    string      '1' = change nothing unless all are as they were
-- ARGV[2...] rows   strings     the messages, as in fragments/unchanged.lua
--
-- returns the number of messages that were deleted; -1 if nothing was changed because of strict
-- errors  none
-- source  none in Node; the queue is as after delete_messages.lua
-- @include due.lua
-- @include full.lua
-- @include selected.lua

local hash, zset = KEYS[1], KEYS[2]
local strict = ARGV[1]
local rows = ARGV

allow_removal(zset, hash)
local ids = selected_ids(hash, zset, rows, 2, strict)
if not ids then
  return -1
end
remove_messages(zset, hash, ids)
return #ids
