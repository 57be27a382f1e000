-- Returns ids of a queue with their scores, in no order; one step of a scan. An id that is in the
-- queue from the first step to the last is returned, even if its score changes; it may be returned
-- twice.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- ARGV[1] cursor  string      the cursor of the scan, '0' = the first step
--
-- returns {the next cursor, '0' at the end; {id, score, id ...}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include queue.lua
-- @include reserved.lua

local hash, zset = KEYS[1], KEYS[2]
local cursor = ARGV[1]

if not queue(hash) then
  return queue_not_found(hash)
end
local scan = redis.call('ZSCAN', zset, cursor, 'COUNT', '1000')
local found, ids = scan[2], {}
for at = 1, #found, 2 do
  local short = #found[at] < 10 or string.byte(found[at]) == 120
  if not (short and is_reserved(found[at])) then
    ids[#ids + 1], ids[#ids + 2] = found[at], found[at + 1]
  end
end
return {scan[1], ids}
