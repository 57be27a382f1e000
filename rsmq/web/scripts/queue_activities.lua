-- Returns what was sent and received in each of several queues, and what waits.
--
-- KEYS[1...] queues  keys  of each queue: its hash, its sorted set of ids, its history, the sorted set of ids of
--                          its dead-letter queue or again its own, its reasons
--
-- returns {ms now, for each queue {score of its first message, messages in the dead-letter queue, whether workers have
--         moved messages to it, totals of sends and of receives, time of creation, state of the history, its minutes
--         in the hour before, those in this hour}}; nil for what there is not, and for a queue that can't be read
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include time_ms.lua

local queues = KEYS

local now = server_time_ms()
local hour = math.floor(now / 3600000)
local first, second = 'm' .. digits(hour - 1), 'm' .. digits(hour)

local function read(hash, zset, history, dead, reasons)
  local totals = redis.call('HMGET', hash, 'totalsent', 'totalrecv', 'created')
  local chunks = redis.call('HMGET', history, 'state', first, second)
  local score = redis.call('ZRANGE', zset, '0', '0', 'WITHSCORES')[2]
  return {score or false, dead ~= zset and redis.call('ZCARD', dead), redis.call('EXISTS', reasons),
    totals[1], totals[2], totals[3], chunks[1], chunks[2], chunks[3]}
end

local found = {digits(now)}
for at = 1, #queues, 5 do
  local has_read, each = pcall(read, unpack(queues, at, at + 4))
  found[#found + 1] = has_read and each
end
return found
