-- Reads what decides on a message whose consumer has failed or defers it. Changes nothing.
--
-- KEYS[1] hash  hash        the queue's attributes, bodies and counters
-- KEYS[2] zset  sorted set  the queue's message ids
-- ARGV[1] id    string      the id of the message
--
-- returns {ms now, its body, ms of its first receive, its own number of retries, how many of its receives were no
--         attempts, the dead-letter queue of the policy, and its maximum of receives}, each '' without a value
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include limits.lua
-- @include unbegun.lua

local hash, zset = KEYS[1], KEYS[2]
local id = ARGV[1]

if not queue(hash) then
  return queue_not_found(hash)
end
local stored = redis.call('HMGET', hash, id, id .. ':fr', 'x:limited', 'x:dlq', 'x:max')
local retries = has_limits(stored[3]) and limits_of(zset, id)
return {digits(server_time_ms()), stored[1] or '', stored[2] or '', retries and digits(retries) or '',
  digits(unbegun_receives(zset, hash, {id})[1]), stored[4] or '', stored[5] or ''}
