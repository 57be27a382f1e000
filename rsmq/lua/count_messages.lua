-- Counts the messages of a queue from a position on; one step of a walk. Ids without a body are not
-- counted.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the position: its score, '-inf' = the first step
-- ARGV[2] seen   integer     the position: ids of that score already read
--
-- returns {score of the next position or nil at the end, ids of that score already read, now ms,
--         visible, in flight, delayed, {ids}, score of the first visible message or nil, retrying, held back}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include variadic.lua
-- @include walk.lua
-- @include retrying.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen = ARGV[1], ARGV[2]

if not queue(hash) then
  return queue_not_found(hash)
end
local now = server_time_ms()
local found = next_ids(zset, from, seen, '+inf', 1000)
local names = {}
for at = 1, #found, 2 do
  names[#names + 1] = found[at] .. ':rc'
end
local counts, ids = values_of('HMGET', hash, names), {}
local visible, in_flight, delayed, first = 0, 0, 0, false
local received, receives, retrying, held_back = {}, {}, 0, 0
for at = 1, #names do
  local id = found[2 * at - 1]
  if redis.call('HEXISTS', hash, id) == 1 and not is_reserved(id) then
    ids[#ids + 1] = id
    if tonumber(found[2 * at]) <= now then
      visible, first = visible + 1, first or found[2 * at]
    elseif counts[at] then
      in_flight = in_flight + 1
      received[in_flight], receives[in_flight] = id, counts[at]
    elseif due_of_held_back(zset, hash, id) then
      held_back = held_back + 1
    else
      delayed = delayed + 1
    end
  end
end
for _, failure in ipairs(errors_of(zset, hash, received, receives)) do
  retrying = failure and retrying + 1 or retrying
end
in_flight = in_flight - retrying
local score, behind = place_behind(found, #names, from, seen)
return {#names == 1000 and score, behind, digits(now), visible, in_flight, delayed, ids, first, retrying, held_back}
