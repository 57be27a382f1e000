-- Delivers the message that is due first, and hides it. What was received as often as the queue's
-- policy allows is moved to the dead-letter queue, whose keys are known only here.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] vt         integer     ms to hide it; '' = the queue's vt
-- ARGV[2] namespace  string      first part of the keys of a dead-letter queue
--
-- returns {id, body, receive count, first-received ms}; nil if nothing is due
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  npm rsmq 0.12.4 receiveMessage; ghosts are healed instead of delivered
-- @include _time.lua
-- @include _attributes.lua
-- @include _due.lua
-- @include _totals.lua
-- @include _dead_letters.lua

local hash, zset = KEYS[1], KEYS[2]
local vt, namespace = ARGV[1], ARGV[2]

local stored = queue(hash, 'x:dlq', 'x:max', 'totalrecv')
if not stored then
  return queue_not_found(hash)
end
local hidden = vt ~= '' and tonumber(vt) or stored_ms(stored[1])
if not hidden then
  return no_number('vt', stored[1])
end

local now = server_time_ms()
local id, values = first_deliverable(zset, hash, now, namespace, stored[4], stored[5])
if not id then
  return false
end
require_integer(hash, 'totalrecv', stored[6])
require_integer(hash, id .. ':rc', values[2])

local count = raised(hash, id .. ':rc', values[2], 1)
-- Also where another client counted a receive without noting its time.
local first = count ~= '1' and values[3] or digits(now)
change(zset, 'HSET', hash, id .. ':rc', count, id .. ':fr', first, 'totalrecv',
  raised(hash, 'totalrecv', stored[6], 1))
redis.call('ZADD', zset, digits(now + hidden), id)
return {id, values[1], tonumber(count), first}
