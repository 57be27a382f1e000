-- Returns the receipts of messages that were received, from a position on; one step of a walk. They are
-- those that are hidden now, or those that were received some time ago.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the position: its score, '' = the first step
-- ARGV[2] seen   integer     the position: ids of that score already read
-- ARGV[3] idle   integer     ms since the last receive, estimated as score minus the queue's vt; '' =
--                            those that are hidden now, which the caller releases before the next step
--
-- returns {score of the next position or nil at the end, ids of that score already read, {id, receive
--         count, id ...}}
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include variadic.lua
-- @include walk.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, idle = ARGV[1], ARGV[2], ARGV[3]

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local vt = stored_ms(stored[1])
if not vt then
  return no_number('vt', stored[1])
end
local now = server_time_ms()
local to = idle == '' and '+inf' or digits(now - idle + vt)
if from == '' then
  from = idle == '' and '(' .. digits(now) or '-inf'
end
local ids = next_ids(zset, from, seen, to, 1000)
local names = {}
for at = 1, #ids, 2 do
  names[#names + 1] = ids[at] .. ':rc'
end
local counts, receipts, gone = values_of('HMGET', hash, names), {}, {}
for at = 1, #names do
  local id = ids[2 * at - 1]
  if counts[at] then
    receipts[#receipts + 1], receipts[#receipts + 2] = id, counts[at]
    gone[id] = idle == ''
  end
end
local score, behind = place_behind(ids, #names, from, seen, gone)
return {#names == 1000 and score, behind, receipts}
