-- Returns the ids of a queue, and the data stored for each, behind an id; one step of a walk. A step is short also if
-- many ids have one score: it finds its first id by the place of the last one, not by counting from the first.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] score  score       the score of the last id that was read; '' = the first step
-- ARGV[2] last   string      the last id that was read
--
-- returns {score of the last id or nil at the end; the last id; now ms; {id, score, 1 if there is a body, receive
--         count or nil, first-received ms or nil, id ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include reserved.lua
-- @include variadic.lua
-- @include rank.lua

local hash, zset = KEYS[1], KEYS[2]
local score, last = ARGV[1], ARGV[2]

local rank = score == '' and 0 or rank_behind(zset, score, last)
local found = redis.call('ZRANGE', zset, rank, rank + 99, 'WITHSCORES')
local names, entries = {}, {}
for at = 1, #found, 2 do
  names[at], names[at + 1] = found[at] .. ':rc', found[at] .. ':fr'
end
local counts = values_of('HMGET', hash, names)
for at = 1, #found, 2 do
  local filled = #entries
  entries[filled + 1], entries[filled + 2] = found[at], found[at + 1]
  entries[filled + 3] = is_reserved(found[at]) and 0 or redis.call('HEXISTS', hash, found[at])
  entries[filled + 4], entries[filled + 5] = counts[at], counts[at + 1]
end
return {#found == 200 and found[200], found[199] or '', digits(server_time_ms()), entries}
