-- Returns what has become of messages, by their ids; nothing is changed.
--
-- KEYS[1] hash     hash     the queue's attributes, bodies and counters
-- ARGV[1...] ids   strings  the messages' ids, at least one
--
-- returns for each id its receive count, 0 if it was never received, or -1 if it has left the queue
-- errors  none
-- source  none in Node

local hash = KEYS[1]
local ids = ARGV

local names = {}
for at, id in ipairs(ids) do
  names[at] = id .. ':rc'
end
local states = {}
for at, count in ipairs(redis.call('HMGET', hash, unpack(names))) do
  states[at] = redis.call('HEXISTS', hash, ids[at]) == 1 and math.floor(tonumber(count or 0) or 0) or -1
end
return states
