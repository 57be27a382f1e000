-- Receives the message that has been visible the longest, and deletes it. One that was received as
-- often as the queue's policy allows is moved to the dead-letter queue, whose name is stored in the
-- queue; an expired one is removed or moved too.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] namespace  string      first part of the keys of a dead-letter queue
--
-- returns {id, body, receive count, first-received ms}; nil if no message is visible; if the queue's rate allows
--         none now, ms as throttled_ms of fragments/throttle_state.lua returns them
-- errors  QUEUENOTFOUND
-- source  npm rsmq 0.12.4 popMessage; ghost ids are removed instead of delivered
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include due.lua
-- @include full.lua
-- @include totals.lua
-- @include deliverable.lua
-- @include leaving.lua

local hash, zset = KEYS[1], KEYS[2]
local namespace = ARGV[1]

local stored = queue(hash, 'x:dlq', 'x:max', 'x:keep', 'x:limited', 'x:throttle')
if not stored then
  return queue_not_found(hash)
end

local now = server_time_ms()
local id, values = first_deliverable(zset, hash, now, namespace, unpack(stored, 4, 8))
if not id then
  return values or false
end

allow_removal(zset, hash)
add_to(hash, 'totalrecv', 1)
remove_message(zset, hash, id)
note_left(zset, hash, {id})
local count = whole(values[2]) + 1
return {id, values[1], count, count > 1 and values[3] or digits(now)}
