-- Raises a queue's totals, and sets its creation time back; never lowers a total or raises the time.
--
-- KEYS[1] hash      hash     the queue's attributes, bodies and counters
-- ARGV[1] sent      integer  messages sent so far
-- ARGV[2] received  integer  receives and pops so far
-- ARGV[3] created   integer  Unix seconds; '' = unknown
--
-- returns 1
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include queue.lua
-- @include attributes.lua

local hash = KEYS[1]
local sent, received, created = ARGV[1], ARGV[2], ARGV[3]

local stored = queue(hash, 'totalsent', 'totalrecv', 'created')
if not stored then
  return queue_not_found(hash)
end
if tonumber(sent) > (decimal(stored[4]) or 0) then
  redis.call('HSET', hash, 'totalsent', sent)
end
if tonumber(received) > (decimal(stored[5]) or 0) then
  redis.call('HSET', hash, 'totalrecv', received)
end
if created ~= '' and tonumber(created) < (decimal(stored[6]) or 0) then
  redis.call('HSET', hash, 'created', created)
end
return 1
