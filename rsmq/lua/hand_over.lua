-- Takes received messages out of a queue and pushes them onto the left end of another system's list,
-- each if its receive is still the latest.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] list      list        where they go
-- KEYS[4...] others hash        for each message a hash that goes with it; or none at all
-- ARGV[1...] given  strings     for each message its id, its receive count, the element, how many
--                               values the hash gets, and these: names and values in turn
--
-- returns a digit for each message: 1 it was handed over, 0 it is not in the queue, 2 it was
--         received again since
-- errors  none: a missing queue has no such message
-- source  none in Node
-- @include full.lua
-- @include variadic.lua

local hash, zset, list = KEYS[1], KEYS[2], KEYS[3]
local others = KEYS
local given = ARGV

allow_removal(zset, hash) -- also fails on a key of another type
redis.call('LTRIM', list, '0', '-1')

local told, ids, fields, elements, at = {}, {}, {}, {}, 1
while at <= #given do
  local id, values = given[at], tonumber(given[at + 3])
  local there = redis.call('ZSCORE', zset, id)
  local latest = there and redis.call('HGET', hash, id .. ':rc') == given[at + 1]
  if latest then
    ids[#ids + 1] = id
    for _, name in ipairs({'', ':rc', ':fr', ':meta'}) do
      fields[#fields + 1] = id .. name
    end
    elements[#elements + 1] = given[at + 2]
    local named = {}
    for each = 1, values do
      named[each] = given[at + 3 + each]
    end
    variadic('HSET', others[4 + #told], named)
  end
  told[#told + 1] = latest and '1' or there and '2' or '0'
  at = at + 4 + values
end
variadic('LPUSH', list, elements)
variadic('ZREM', zset, ids)
variadic('HDEL', hash, fields)
return table.concat(told)
