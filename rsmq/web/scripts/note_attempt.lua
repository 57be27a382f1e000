-- Notes in the record of a message which attempt its consumer reports about, once, and reads what decides on the message.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- KEYS[3] record  hash        the record of the message, as in fragments/jobs.lua
-- ARGV[1] id      string      the id of the message
-- ARGV[2] count   integer     the receive count of the receipt
--
-- returns {ms now, its body, ms of its first receive, its own number of retries, how many of its receives were no
--         attempts, the dead-letter queue of the policy, and its maximum of receives}, each '' without a value
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include attributes.lua
-- @include jobs.lua
-- @include queue.lua
-- @include limits.lua
-- @include unbegun.lua

local hash, zset, record = KEYS[1], KEYS[2], KEYS[3]
local id, count = ARGV[1], ARGV[2]

local attributes = queue(hash)
if not attributes then
  return queue_not_found(hash)
end
local now = server_time_ms()
local stored = redis.call('HMGET', hash, id, id .. ':fr', 'x:limited', 'x:dlq', 'x:max', id .. ':rc')
local retries = has_limits(stored[3]) and limits_of(zset, id)
local unbegun = unbegun_receives(zset, hash, {id})[1]
local noted, score = redis.call('HMGET', record, 'state', 'receives'), redis.call('ZSCORE', zset, id)
if score and stored[6] == count and noted[1] and not has_job_ended(noted[1]) and noted[2] ~= count then
  -- Of a later receive the time is not stored: it is as long before the score as messages of the queue are hidden.
  local begun = count == '1' and stored[2] or digits(math.min(score - (stored_ms(attributes[1]) or 0), now))
  change_job(record, 'begin', now, '', math.max(score - now, 0), 'attempt', digits(math.max(count - unbegun, 1)),
    'receives', count, 'begun', begun)
  redis.call('HDEL', record, 'worker')
end
return {digits(now), stored[1] or '', stored[2] or '', retries and digits(retries) or '', digits(unbegun),
  stored[4] or '', stored[5] or ''}
