-- Returns which queues have a given dead-letter queue.
--
-- KEYS[1...] queues  hashes  the attributes of the queues to check
-- ARGV[1] target     string  the dead-letter queue's name
--
-- returns the indexes of those queues, from 0
-- errors  none
-- source  none in Node

local queues = KEYS
local target = ARGV[1]

local sources = {}
for at = 1, #queues do
  if redis.call('HMGET', queues[at], 'x:dlq')[1] == target then
    sources[#sources + 1] = at - 1
  end
end
return sources
