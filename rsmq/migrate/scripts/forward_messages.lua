-- Removes received messages from a queue and pushes them onto the left end of another system's list, or
-- onto a stream, each if its receive is still the latest.
--
-- KEYS[1] hash         hash          the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set    the queue's message ids
-- KEYS[3] target       list, stream  the target
-- KEYS[4...] own_keys  hash          a hash of each message, written with it; or none for all of them
-- ARGV[1] shape        string        'list' or 'stream'
-- ARGV[2...] messages  strings       for each message its id, its receive count, the element of the list, the
--                                    number of values for its hash or for its entry in the stream, and
--                                    these: names and values in turn
--
-- returns a digit for each message: 1 it was forwarded, 0 it is not in the queue, 2 it was received again
--         since
-- errors  none: a message of a missing queue counts as missing
-- source  none in Node
-- @include full.lua
-- @include leaving.lua
-- @include variadic.lua

local hash, zset, target = KEYS[1], KEYS[2], KEYS[3]
local own_keys = KEYS
local shape = ARGV[1]
local messages = ARGV

allow_removal(zset, hash) -- also fails on a key of another type
if shape == 'list' then
  redis.call('LTRIM', target, '0', '-1')
else
  redis.call('XTRIM', target, 'MAXLEN', '9007199254740991')
end

local outcomes, ids, fields, elements, at = {}, {}, {}, {}, 2
while at <= #messages do
  local id, number = messages[at], tonumber(messages[at + 3])
  local present = redis.call('ZSCORE', zset, id)
  local latest = present and redis.call('HGET', hash, id .. ':rc') == messages[at + 1]
  if latest then
    ids[#ids + 1] = id
    for _, name in ipairs({'', ':rc', ':fr', ':meta'}) do
      fields[#fields + 1] = id .. name
    end
    local values = {}
    for each = 1, number do
      values[each] = messages[at + 3 + each]
    end
    if shape == 'stream' then
      redis.call('XADD', target, '*', unpack(values))
    else
      elements[#elements + 1] = messages[at + 2]
      variadic('HSET', own_keys[4 + #outcomes], values)
    end
  end
  outcomes[#outcomes + 1] = latest and '1' or present and '2' or '0'
  at = at + 4 + number
end
variadic('LPUSH', target, elements)
variadic('ZREM', zset, ids)
variadic('HDEL', hash, fields)
note_left(zset, hash, ids)
return table.concat(outcomes)
