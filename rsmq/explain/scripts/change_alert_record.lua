-- Changes fields of the record of announced alerts, if all of them still have their expected values.
--
-- KEYS[1] record      hash     targets, silences, announced alerts, and messages to targets
-- ARGV[1...] changes  strings  for each change the field, the expected value, and the new one; '' is none
--
-- returns {ms now, 1 if all fields have the new values, else 0, and then the record {field, value, field ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local record = KEYS[1]
local changes = ARGV

local is_expected, is_done = #changes > 0, #changes > 0
for at = 1, #changes, 3 do
  local stored = redis.call('HGET', record, changes[at]) or ''
  is_expected = is_expected and stored == changes[at + 1]
  is_done = is_done and stored == changes[at + 2]
end
local now = digits(server_time_ms())
if not is_expected and not is_done then
  return {now, 0, redis.call('HGETALL', record)}
end
redis.call('HDEL', record, '') -- no field has this name: when memory is full, it allows the next, which says so
for at = 1, is_done and 0 or #changes, 3 do
  if changes[at + 2] == '' then
    redis.call('HDEL', record, changes[at])
  elseif changes[at + 2] ~= changes[at + 1] then
    redis.call('HSET', record, changes[at], changes[at + 2])
  end
end
return {now, 1, {}}
