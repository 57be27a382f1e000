-- How long it is until the first message of each queue is due. Read by a connection that tracks
-- keys, so that it is told of the next change of each sorted set, and of the names of queues; it
-- reads no hash, or every send would be told twice.
--
-- KEYS[1...] zsets   sorted sets  the message ids of the queues to look at, and last, or not at all,
--                                 the set of the names of all queues
-- ARGV[1...] names   strings      the queues' names
--
-- returns ms for each queue, 0 if a message is due; -1 if there is none, -2 if there is none and the
--         queue is not listed
-- errors  none
-- source  none in Node
-- @include _time.lua

local zsets = KEYS
local names = ARGV

local now = server_time_ms()
local answer = {}
for at = 1, #names do
  local first = redis.call('ZRANGEBYSCORE', zsets[at], '-inf', '+inf', 'WITHSCORES',
    'LIMIT', '0', '1')[2]
  -- Not every user may ask for names; then a deleted queue is noticed later.
  local listed = zsets[#names + 1] and redis.pcall('SISMEMBER', zsets[#names + 1], names[at])
  if first then
    answer[at] = math.min(math.max(math.ceil(first - now), 0), 1e10)
  else
    answer[at] = listed == 0 and -2 or -1
  end
end
return answer
