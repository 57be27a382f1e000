-- Receives the message that has been visible the longest, and hides it. One that was received as
-- often as the queue's policy allows is moved to the dead-letter queue, whose name is stored in the
-- queue; an expired one is removed or moved too.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] vt         integer     ms to hide it; '' = the queue's vt
-- ARGV[2] namespace  string      first part of the keys of a dead-letter queue
--
-- returns {id, body, receive count, first-received ms}; nil if no message is visible; if the queue's limits allow
--         none now, ms as throttled_ms of fragments/throttle_state.lua returns them
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  npm rsmq 0.12.4 receiveMessage; ghost ids are removed instead of delivered
-- @include time_ms.lua
-- @include digits.lua
-- @include usual.lua

local hash, zset = KEYS[1], KEYS[2]
local vt, namespace = ARGV[1], ARGV[2]

local now = server_time_ms()
local this_time = digits(now)
local stored = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'totalrecv', 'x:max', 'x:keep', 'x:limited',
  'x:throttle')
local id = redis.call('ZRANGEBYSCORE', zset, '-inf', this_time, 'LIMIT', '0', '1')[1]
local values = id and redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
local hidden
if stored[1] and stored[2] and stored[3] and usual(stored[4], 15) and not stored[6] and not stored[7] and not stored[8]
  and (vt ~= '' or usual(stored[1], 7)) and (not id or values[1] and usual(values[2], 15)
  and #id > 9 and string.byte(id) ~= 120
  and (not stored[5] or usual(stored[5], 7) and (values[2] or 0) + 0 < stored[5] + 0)) then
  hidden = vt ~= '' and vt or stored[1] * 1000
else -- the slow path for unusual values
  -- @include queue.lua
  -- @include attributes.lua
  -- @include reserved.lua
  -- @include due.lua
  -- @include full.lua
  -- @include totals.lua
  -- @include local_keys.lua
  -- @include unbegun.lua
  -- @include limits.lua
  -- @include dead_letters.lua
  -- @include expired.lua
  -- @include deliverable.lua
  local limits = queue(hash, 'x:dlq')
  if not limits then
    return queue_not_found(hash)
  end
  hidden = vt ~= '' and tonumber(vt) or stored_ms(stored[1])
  if not hidden then
    return no_number('vt', stored[1])
  end
  id, values = first_deliverable(zset, hash, now, namespace, limits[4], stored[5], stored[6], stored[7], stored[8], hidden)
  if id then
    allow_when_full(zset)
    stored[4], values[2] = as_integer(stored[4]), as_integer(values[2])
  end
end
if not id then
  return values or false
end

local count = raised(hash, id .. ':rc', values[2], 1)
-- values[3] is nil if another client counted a receive without storing its time.
local first = tonumber(count) > 1 and values[3] or this_time
local changes = {id .. ':rc', count, id .. ':fr', first, 'totalrecv',
  raised(hash, 'totalrecv', stored[4], 1)}
if type(redis.pcall('HSET', hash, unpack(changes))) == 'table' then
  -- Memory is full. After a first write that needs no memory, Redis allows others; this one changes
  -- nothing.
  redis.call('ZREM', zset, '\0none')
  redis.call('HSET', hash, unpack(changes))
end
redis.call('ZADD', zset, digits(now + hidden), id)
return {id, values[1], tonumber(count), first}
