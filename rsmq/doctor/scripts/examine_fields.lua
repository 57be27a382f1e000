-- Returns the fields of a queue's hash that belong to no id in the queue; one step of a walk through the hash.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- ARGV[1] cursor  string      the cursor of HSCAN; '0' = the first step
-- ARGV[2] count   integer     how many fields to read, about
--
-- returns {the next cursor, '0' at the end; now ms; size in bytes of the values that were read; {field, the id
--         that it belongs to, 1 if that id has a body, field ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local hash, zset = KEYS[1], KEYS[2]
local cursor, count = ARGV[1], ARGV[2]

local scan = redis.call('HSCAN', hash, cursor, 'COUNT', count)
local found, bytes, orphans = scan[2], 0, {}
for at = 1, #found, 2 do
  local field = found[at]
  local id = string.match(field, '^(.+):rc$') or string.match(field, '^(.+):fr$')
    or string.match(field, '^(.+):meta$') or field
  bytes = bytes + #found[at + 1]
  if not redis.call('ZSCORE', zset, id) and not redis.call('ZSCORE', zset, field) then
    local last = #orphans
    orphans[last + 1], orphans[last + 2], orphans[last + 3] = field, id, redis.call('HEXISTS', hash, id)
  end
end
return {scan[1], digits(server_time_ms()), bytes, orphans}
