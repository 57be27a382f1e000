-- Takes messages out of another system's sorted set, and puts them into a queue, or aside for
-- another server.
--
-- KEYS[1] hash      hash              the queue's attributes, bodies and counters; or as zset
-- KEYS[2] zset      sorted set, hash  the queue's message ids; or what is aside
-- KEYS[3] copied    hash              digests of what was copied before; or as zset
-- KEYS[4] source    sorted set        where the messages are
-- ARGV[1] to        string            'queue' or 'aside'
-- ARGV[2] channel   string            where to publish the number of messages; '' = don't
-- ARGV[3...] given  strings           for each message the element and a row as in fragments/landing.lua
--
-- returns a digit for each message: 1 it was taken, 2 too, but copied before, and goes nowhere, 0 it
--         is not there any more
-- errors  QUEUENOTFOUND; then nothing is taken
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include full.lua
-- @include totals.lua
-- @include variadic.lua
-- @include restoring.lua
-- @include copies.lua
-- @include landing.lua

local hash, zset, copied, source = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local to, channel = ARGV[1], ARGV[2]
local given = ARGV

if to == 'queue' and not queue(hash) then
  return queue_not_found(hash)
end
allow_when_full(source)

local counts = to == 'queue' and is_of_queue(copied, hash)
local told, rows, elements = {}, {}, {}
for at = 3, #given, 7 do
  local answer = '0'
  if redis.call('ZSCORE', source, given[at]) then
    answer = go_on(rows, given, at + 1, counts, copied)
    elements[#elements + 1] = given[at]
  end
  told[#told + 1] = answer
end
local came = put(to, hash, zset, rows)
variadic('ZREM', source, elements)
announce(channel, zset, came)
return table.concat(told)
