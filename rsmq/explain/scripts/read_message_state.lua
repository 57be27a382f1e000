-- Reads everything that says where a message is and what it waits for. Nothing is changed.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] id         string      the message's id
-- ARGV[2] namespace  string      the namespace
-- ARGV[3] workers    string      the key of the registered workers, a hash that the user may lack the right to
-- ARGV[4] held       string      the begin of the keys of what workers have in flight
-- ARGV[5] name       string      the queue's name
--
-- returns {the attributes and counts of the queue, now ms, the workers as list_workers.lua returns them or nil, ms of its
--         last resume or nil, what limit_reached.lua returns,
--         {score or nil, bytes of the body or nil, receive count or nil, first-received ms or nil, ids before it,
--         the name of the worker that has it in flight, '' if not all were asked, or nil},
--         {receives that began no call, the error of the last attempt or nil, its reason or nil, own retries or nil,
--         ms of the own expiry or nil, record of its runs in quarantine or nil, receive count of its last failure,
--         what stream_of returns}, its record as read_jobs.lua returns
--         it or nil, whether the dead-letter queue of the policy exists, {score there, reason} if it is there or nil,
--         what before.lua returns}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include describe.lua
-- @include local_keys.lua
-- @include unbegun.lua
-- @include retrying.lua
-- @include reasons.lua
-- @include limits.lua
-- @include registered.lua
-- @include whereabouts.lua
-- @include streams.lua
-- @include before.lua
-- @include limit_reached.lua

local hash, zset = KEYS[1], KEYS[2]
local id, namespace, workers, held, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored = queue(hash, 'x:dlq', 'x:limited', 'x:resumed')
if not stored then
  return queue_not_found(hash)
end
local now = server_time_ms()
local score = redis.call('ZSCORE', zset, id)
local found = redis.call('HMGET', hash, id .. ':rc', id .. ':fr')
local size = redis.call('HEXISTS', hash, id) == 1 and redis.call('HSTRLEN', hash, id)
local is_hidden = score and tonumber(score) > now
local retries, expires = nil, nil
if has_limits(stored[5]) then
  retries, expires = limits_of(zset, id)
end
require_local_beside(zset, ':x:alone')
local alone = redis.pcall('HGET', zset .. ':x:alone', id)
local exists, dead = find_dead(zset, id, namespace, stored[4])
local registered = registered_workers(zset, workers)
local worker = is_hidden and found[1] and worker_of(zset, id, found[1], name, held, registered)
return {
  describe(hash, zset), digits(now), registered, stored[6], limit_reached(zset, hash, now),
  {score, size, found[1], found[2], redis.call('ZRANK', zset, id) or 0,
    worker},
  {unbegun_receives(zset, hash, {id})[1], errors_of(zset, hash, {id}, {is_hidden and found[1]})[1],
    records_of(zset, {id}, ':x:reasons')[1] or false, retries or false, expires and digits(expires) or false,
    type(alone) == 'string' and alone, failed_receives(zset, hash, {id})[1],
    is_hidden and found[1] and not worker and stream_of(zset, id, found[1])},
  job_of(hash, zset, id, now), exists, dead, message_before(hash, zset, id),
}
