-- The received and hidden messages of a queue from a place on, as receipts; one step of a walk. What
-- releases them is release_messages.lua.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the place: its score, '' = the first step
-- ARGV[2] seen   integer     the place: ids of that score that lie behind
--
-- returns {score of the next place or nil at the end, ids of that score that lie behind, {id, receive
--         count, id ...}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include _time.lua
-- @include _attributes.lua
-- @include _variadic.lua
-- @include _walk.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen = ARGV[1], ARGV[2]

if not queue(hash) then
  return queue_not_found(hash)
end
from = from ~= '' and from or '(' .. digits(server_time_ms())
local ids = next_ids(zset, from, seen, '+inf', 1000)
local names = {}
for at = 1, #ids, 2 do
  names[#names + 1] = ids[at] .. ':rc'
end
local counts, receipts, gone = values_of('HMGET', hash, names), {}, {}
for at = 1, #names do
  local id = ids[2 * at - 1]
  if counts[at] then
    receipts[#receipts + 1], receipts[#receipts + 2] = id, counts[at]
    gone[id] = true -- by the next step it has been released
  end
end
local score, behind = place_behind(ids, #names, from, seen, gone)
return {#names == 1000 and score, behind, receipts}
