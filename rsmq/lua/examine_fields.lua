-- Fields of a queue's hash that belong to no id in the queue; one step of a walk through it.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- ARGV[1] cursor  string      where the walk is, '0' = the first step
-- ARGV[2] count   integer     fields to look at, about
--
-- returns {the next cursor, '0' at the end; now ms, bytes that were looked at, {field, the id that it is
--         about, 1 if that id has a body, field ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local hash, zset = KEYS[1], KEYS[2]
local cursor, count = ARGV[1], ARGV[2]

local scan = redis.call('HSCAN', hash, cursor, 'COUNT', count)
local found, bytes, told = scan[2], 0, {}
for at = 1, #found, 2 do
  local field = found[at]
  local id = string.match(field, '^(.+):rc$') or string.match(field, '^(.+):fr$')
    or string.match(field, '^(.+):meta$') or field
  bytes = bytes + #found[at + 1]
  if not redis.call('ZSCORE', zset, id) and not redis.call('ZSCORE', zset, field) then
    local last = #told
    told[last + 1], told[last + 2], told[last + 3] = field, id, redis.call('HEXISTS', hash, id)
  end
end
return {scan[1], digits(server_time_ms()), bytes, told}
