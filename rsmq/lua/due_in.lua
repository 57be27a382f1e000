-- How long it is until the first message of each queue is due. Read by a connection that tracks
-- keys, so that it is told of the next change of each sorted set, and of the names of queues; it
-- reads no hash, or every send would be told twice.
--
-- KEYS[1...] zsets   sorted sets  the message ids of the queues to look at, and last, or not at all,
--                                 the set of the names of all queues
-- ARGV[1] number     integer      how many queues
--
-- returns ms for each queue, 0 if a message is due; -1 if there is none
-- errors  none
-- source  none in Node
-- @include _time.lua

local zsets = KEYS
local number = ARGV[1]

number = tonumber(number)
if zsets[number + 1] then
  redis.pcall('SCARD', zsets[number + 1])
end
local now = server_time_ms()
local answer = {}
for at = 1, number do
  local first = redis.call('ZRANGEBYSCORE', zsets[at], '-inf', '+inf', 'WITHSCORES',
    'LIMIT', 0, 1)[2]
  answer[at] = first and math.min(math.max(math.ceil(first - now), 0), 1e10) or -1
end
return answer
