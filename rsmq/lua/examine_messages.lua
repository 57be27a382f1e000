-- Returns the ids of a queue, and the data stored for each, from a position on; one step of a walk.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the position: its score, '-inf' = the first step
-- ARGV[2] seen   integer     the position: how many ids of that score were read already
--
-- returns {score of the next position or nil at the end; how many ids of that score were read already; now ms; {id,
--         score, 1 if there is a body, receive count or nil, first-received ms or nil, id ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include reserved.lua
-- @include variadic.lua
-- @include walk.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen = ARGV[1], ARGV[2]

local found = next_ids(zset, from, seen, '+inf', 1000)
local names, entries = {}, {}
for at = 1, #found, 2 do
  names[at], names[at + 1] = found[at] .. ':rc', found[at] .. ':fr'
end
local counts = values_of('HMGET', hash, names)
for at = 1, #found, 2 do
  local last = #entries
  entries[last + 1], entries[last + 2] = found[at], found[at + 1]
  entries[last + 3] = is_reserved(found[at]) and 0 or redis.call('HEXISTS', hash, found[at])
  entries[last + 4], entries[last + 5] = counts[at], counts[at + 1]
end
local score, behind = place_behind(found, #found / 2, from, seen)
return {#found == 2000 and score, behind, digits(server_time_ms()), entries}
