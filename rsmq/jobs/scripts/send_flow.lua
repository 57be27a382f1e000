-- Stores a flow of tasks, and sends the nodes that wait for nothing. A flow that is stored already is left as it is.
--
-- KEYS[1] key           hash              the flow, as in fragments/flows.lua
-- KEYS[2] due           sorted set        the schedules and the unfinished flows by the ms of the next attempt or check
-- KEYS[3] sent          sorted set        the ids of the last 10,000 flows by the ms of their sends
-- KEYS[4...] queues     hash, sorted set  the two keys of each queue that the nodes are sent to
-- ARGV[1] lifetime      integer           ms for which the flow is stored while it does not change
-- ARGV[2] check         integer           ms until its first check
-- ARGV[3] ready         string            the numbers of the nodes that wait for nothing, with blanks
-- ARGV[4...] fields     strings           for each queue the size of its largest message in UTF-16 code units, without
--                                         results; then the fields of the flow, but sent_at, with their values
--
-- returns 1 it was stored, 0 it was there
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG; then nothing is changed
-- source  none in Node
-- @include digits.lua
-- @include job_rights.lua
-- @include jobs.lua
-- @include local_keys.lua
-- @include flows.lua
-- @include sending.lua
-- @include time_us.lua
-- @include variadic.lua

local key, due, sent = KEYS[1], KEYS[2], KEYS[3]
local queues = KEYS
local lifetime, check, ready = ARGV[1], ARGV[2], ARGV[3]
local fields = ARGV

if redis.call('HGET', key, 'state') then
  redis.call('HDEL', key, '') -- a change for WAIT
  return 0
end
for at = 4, #queues, 2 do
  local stored, refusal = sendable(queues[at], fields[(at + 4) / 2], '', 0)
  if not stored then
    return refusal
  end
  require_local_beside(queues[at + 1], ':x:job:')
  require_job_rights(queues[at + 1])
  redis.call('ZADD', queues[at + 1], 'XX', '0', '\0none')
end
-- As the commands before, these change nothing, and fail if memory is full or the user lacks a right.
redis.call('ZADD', due, 'XX', '0', '\0none')
redis.call('ZREMRANGEBYRANK', sent, 0, -10000)
redis.call('HDEL', key, '')
redis.call('HINCRBY', key, '', 0)
redis.call('HDEL', key, '')
local now = math.floor(server_time_us() / 1000)
variadic('HSET', key, {'sent_at', digits(now), unpack(fields, (#queues + 5) / 2)})
redis.call('ZADD', due, digits(now + check), 'flow:' .. string.sub(key, -22))
redis.call('ZADD', sent, digits(now), string.sub(key, -22))
redis.call('PEXPIRE', key, lifetime)
local numbers = {}
for number in string.gmatch(ready, '%d+') do
  numbers[#numbers + 1] = number
end
send_nodes(open_flow(key, change_job), numbers)
return 1
