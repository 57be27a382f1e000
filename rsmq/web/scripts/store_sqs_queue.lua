-- Creates a queue with attributes of SQS, or changes attributes of one that exists, all at once.
--
-- KEYS[1] hash     hash    the queue's attributes, bodies and counters
-- KEYS[2] queues   set     the names of all queues
-- KEYS[3] to_hash  hash    the dead-letter queue's attributes; `hash` again without a new policy
-- ARGV[1] name     string  the queue's name
-- ARGV[2] mode     string  'create', else 'change'
-- ARGV[3] known    string  to change: the field x:sqs as it was read; '' = it was not there
-- ARGV[4] target   string  the dead-letter queue's name; '' = the policy stays, '-' = it is removed
-- ARGV[5] limit    string  how often a message may be received
-- ARGV[6...] fields  strings  names and values of the attribute fields to store
--
-- returns 1 if it was stored; 0 if a queue to create exists, or if x:sqs of one to change was changed since
-- errors  QUEUENOTFOUND, DEADLETTERCYCLE
-- source  npm rsmq 0.12.4 createQueue and setQueueAttributes, for the fields of Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua

local hash, queues, to_hash = KEYS[1], KEYS[2], KEYS[3]
local name, mode, known, target, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local fields = ARGV

local stored = queue(hash, 'x:sqs')
local creates = mode == 'create'
if not creates and not stored then
  return queue_not_found(hash)
elseif creates and stored or stored and (stored[4] or '') ~= known then
  return 0
end
if target ~= '' and target ~= '-' then
  local to = queue(to_hash, 'x:dlq')
  if not to then
    return queue_not_found(to_hash)
  elseif to[4] == name then
    return redis.error_reply('DEADLETTERCYCLE ' .. target)
  end
end
local now = digits(math.floor(server_time_us() / 1000000))
if creates then
  redis.call('SADD', queues, name)
  redis.call('HSETNX', hash, 'created', now)
end
redis.call('HSET', hash, 'modified', now, unpack(fields, 6))
if target == '-' then
  redis.call('HDEL', hash, 'x:dlq', 'x:max')
elseif target ~= '' then
  redis.call('HSET', hash, 'x:dlq', target, 'x:max', limit)
  redis.call('HSETNX', to_hash, 'x:sqs', '{}') -- so that dead letters keep the names of their queues
end
return 1
