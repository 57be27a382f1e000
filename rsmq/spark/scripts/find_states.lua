-- Returns the states of messages, as other readers show them; nothing is changed.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] namespace  string      first part of the keys of a dead-letter queue
-- ARGV[2...] ids     strings     the messages' ids, at most 1,000
--
-- returns for each id its state: visible, in_flight, retrying, held_back, delayed, or expired if it would not be
--         delivered any more; '' if the id is not in the queue
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include retrying.lua
-- @include held_back.lua
-- @include expired.lua

local hash, zset = KEYS[1], KEYS[2]
local namespace = ARGV[1]
local ids = ARGV

local stored = queue(hash, 'x:keep', 'x:limited')
if not stored then
  return queue_not_found(hash)
end
local expires = expiry(namespace, zset, hash, stored[4], stored[5])
if expires then
  expires.dead = nil -- it moves nothing
end
local now, found, fields, scores = server_time_ms(), {}, {}, {}
for at = 2, #ids do
  found[at - 1], fields[at - 1] = ids[at], ids[at] .. ':rc'
  scores[at - 1] = tonumber(redis.call('ZSCORE', zset, ids[at]) or '')
end
local counts, states = redis.call('HMGET', hash, unpack(fields)), {}
for each = 1, #found do
  counts[each] = scores[each] and scores[each] > now and counts[each]
end
local failures = errors_of(zset, hash, found, counts)
add_groups(zset, hash, found, failures)
for each, id in ipairs(found) do
  local state = ''
  if scores[each] then
    state = scores[each] <= now and 'visible' or hidden_state(failures[each], counts[each])
    local is_held = state == 'in_flight' or state == 'retrying'
    if expires and not is_held and is_expired(zset, id, now, expires) then
      state = 'expired'
    end
  end
  states[each] = state
end
return states
