-- Records which handlers of messages have finished, for later attempts; or deletes these records.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- KEYS[3] finished    hash        by message id the names of its finished handlers, with commas between them; two
--                                 further fields as in fragments/unbegun.lua
-- ARGV[1...] records  strings     for each message its id, its receive count and the names; '' deletes its record
--
-- returns the number of records that were stored: their messages still have these receive counts
-- errors  none
-- source  none in Node
-- @include unbegun.lua
-- @include variadic.lua

local hash, zset, finished = KEYS[1], KEYS[2], KEYS[3]
local records = ARGV

local fields, deleted, stored = {}, {'-'}, {}
for at = 1, #records, 3 do
  fields[#fields + 1] = records[at] .. ':rc'
  if records[at + 2] == '' then
    deleted[#deleted + 1] = records[at]
  end
end
local counts = values_of('HMGET', hash, fields)
for at = 1, #records, 3 do
  if records[at + 2] ~= '' and counts[(at + 2) / 3] == records[at + 1] then
    stored[#stored + 1], stored[#stored + 2] = records[at], records[at + 2]
  end
end
variadic('HDEL', finished, deleted) -- no message has the id '-': when memory is full, it allows the next
if #stored > 0 then
  store_records(finished, zset, hash, stored)
end
return #stored / 2
