-- Returns what waits in each of several queues.
--
-- KEYS[1...] queues  hash and sorted set  of each queue: its hash, then its sorted set of ids
-- ARGV[1] fresh      integer              ms: messages that became visible so long ago or later are counted
--
-- returns for each queue {messages, visible ones, score of the first visible one, those that became visible
--         within that time, score of the first of these, dead-letter queue of its policy, ms of its pause, vt,
--         whether workers have moved messages to it, totalsent, totalrecv, created, modified, ms of its last resume,
--         what received_again.lua returns}; nil for what there is not, and for a queue that can't be read
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include time_ms.lua
-- @include queue.lua
-- @include received_again.lua

local queues = KEYS
local fresh = ARGV[1]

local time = server_time_ms()
local now, since = digits(time), digits(time - fresh)

local function read(hash, zset)
  local stored = queue(hash, 'x:dlq', 'x:paused', 'totalsent', 'totalrecv', 'created', 'modified',
    'x:resumed')
  if not stored then
    return false
  end
  local messages, visible, first, recent, first_recent = redis.call('ZCARD', zset), 0, nil, 0, nil
  if messages > 0 then
    visible = redis.call('ZCOUNT', zset, '-inf', now)
  end
  if visible > 0 then
    first = redis.call('ZRANGE', zset, '0', '0', 'WITHSCORES')[2]
    recent = redis.call('ZCOUNT', zset, since, now)
  end
  if recent > 0 then
    first_recent = redis.call('ZRANGEBYSCORE', zset, since, now, 'WITHSCORES', 'LIMIT', '0', '1')[2]
  end
  local again, count, lost, repeated, received, received_first, last_first = nil, 0, 0, 0, 0, nil, nil
  if messages > visible then
    again, count, lost, repeated, received, received_first, last_first = received_again(hash, zset, now,
      stored[1], stored[9])
  end
  -- If the user lacks the right, it is not known.
  local has_reasons = messages > 0 and redis.pcall('EXISTS', zset .. ':x:reasons') == 1
  return {messages, visible, first or false, recent, first_recent or false, stored[4], stored[5], stored[1],
    has_reasons, stored[6], stored[7], stored[8], stored[9], stored[10], again or false, count, lost, repeated, received,
    received_first or false, last_first or false}
end

local states = {}
for at = 1, #queues, 2 do
  local has_read, state = pcall(read, queues[at], queues[at + 1])
  states[#states + 1] = has_read and state
end
return states
