-- Takes messages off another system's list, at the end where its consumers take them, and puts them
-- into a queue, or aside for another server.
--
-- KEYS[1] hash      hash              the queue's attributes, bodies and counters; or as zset
-- KEYS[2] zset      sorted set, hash  the queue's message ids; or what is aside
-- KEYS[3] copied    hash              digests of what was copied before; or as zset
-- KEYS[4] list      list              where the messages are
-- KEYS[5...] others any               for each message a key that goes with it; or none at all
-- ARGV[1] to        string            'queue' or 'aside'
-- ARGV[2] side      string            the consumers' end: 'left' or 'right'
-- ARGV[3] channel   string            where to publish the number of messages; '' = don't
-- ARGV[4...] given  strings           for each message, the next one first, the element and a row
--                                     as in fragments/landing.lua
--
-- returns a digit for each message: 1 it was taken, 2 too, but copied before, and goes nowhere, 0 it
--         was not the next one any more
-- errors  QUEUENOTFOUND; then nothing is taken
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include totals.lua
-- @include variadic.lua
-- @include restoring.lua
-- @include copies.lua
-- @include landing.lua

local hash, zset, copied, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local others = KEYS
local to, side, channel = ARGV[1], ARGV[2], ARGV[3]
local given = ARGV

if to == 'queue' and not queue(hash) then
  return queue_not_found(hash)
end
-- Changes nothing: a key of another type, or a user who may not, fails here and not half-way; and
-- when memory is full the rest may follow.
redis.call('LTRIM', list, '0', '-1')

local number = (#given - 3) / 7
local there = redis.call('LRANGE', list, side == 'left' and 0 or -number, side == 'left' and number - 1 or -1)
local counts = to == 'queue' and is_of_queue(copied, hash)
local told, rows, taken, gone = {}, {}, 0, {}
for at = 4, #given, 7 do
  local element = there[side == 'left' and taken + 1 or #there - taken]
  local answer = '0'
  if element == given[at] and not went_before(to, zset, given[at + 1], given[at + 2]) then
    answer = go_on(rows, given, at + 1, counts, copied)
    taken = taken + 1
    gone[#gone + 1] = others[5 + #told]
  end
  told[#told + 1] = answer
end
local came = put(to, hash, zset, rows)
redis.call('LTRIM', list, side == 'left' and taken or 0, side == 'left' and -1 or -1 - taken)
for each = 1, #gone do
  redis.call('UNLINK', gone[each])
end
announce(channel, zset, came)
return table.concat(told)
