-- Receives messages again, by their receipts, that were received some time ago and not deleted, and
-- hides them. Those that were received as often as the queue's policy allows are moved to the
-- dead-letter queue, whose name is stored in the queue; expired ones are removed or moved too.
-- Those that were received or extended since are not changed.
--
-- KEYS[1] hash          hash        the queue's attributes, bodies and counters
-- KEYS[2] zset          sorted set  the queue's message ids
-- ARGV[1] idle          integer     ms since the last receive, estimated as score minus the queue's vt
-- ARGV[2] vt            integer     ms to hide them; '' = the queue's vt
-- ARGV[3] room          integer     bytes of bodies at most, except for the first body
-- ARGV[4] namespace     string      first part of the keys of a dead-letter queue
-- ARGV[5...] receipts   strings     for each message its id and receive count
--
-- returns {how many receipts were examined, {id, body, receive count, first-received ms, id ...}}
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  none in Node; it writes what npm rsmq 0.12.4 receiveMessage writes
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include full.lua
-- @include totals.lua
-- @include dead_letters.lua
-- @include expired.lua
-- @include leaving.lua

local hash, zset = KEYS[1], KEYS[2]
local idle, vt, room, namespace = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local receipts = ARGV

local stored = queue(hash, 'x:dlq', 'x:max', 'x:keep', 'x:limited', 'x:throttle')
if not stored then
  return queue_not_found(hash)
end
local stored_vt = stored_ms(stored[1])
if not stored_vt then
  return no_number('vt', stored[1])
end
allow_removal(zset, hash)
local dead = policy(namespace, zset, stored[4], stored[5], stored[7])
local expires = expiry(namespace, zset, hash, stored[6], stored[7])
if dead then
  require_local_keys(zset, dead, receipts[5] or '')
end

local now, recovered, examined = server_time_ms(), {}, 0
local to, score = now - idle + stored_vt, digits(now + (vt ~= '' and vt or stored_vt))
local left, throttle = tonumber(room), nil
if stored[8] then -- a message that counts as in flight keeps its place
  -- @include throttle.lua
  throttle = open_throttle(zset, hash, stored[8], now, #receipts)
end
for at = 5, #receipts, 2 do
  local id, count = receipts[at], whole(receipts[at + 1])
  local fields = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
  local body, since = fields[1], redis.call('ZSCORE', zset, id)
  local is_counted = throttle and throttle.counts[id] == count and since and tonumber(since) > now
  if body and not is_reserved(id) and fields[2] == receipts[at + 1] and since and tonumber(since) <= to then
    if dead and is_dead(zset, hash, id, count, dead) then
      transfer(zset, hash, dead, id, digits(now))
      note_left(zset, hash, {id})
    elseif expires and is_expired(zset, id, now, expires) then
      expire(zset, hash, id, now, expires)
      note_left(zset, hash, {id})
    elseif #body > left and #recovered > 0 then
      break
    elseif not throttle or throttle.room > 0 or is_counted then
      add_to(hash, id .. ':rc', 1)
      add_to(hash, 'totalrecv', 1)
      local first = fields[3] or digits(now)
      redis.call('HSET', hash, id .. ':fr', first)
      redis.call('ZADD', zset, score, id)
      if throttle then
        throttle.room = throttle.room - (is_counted and 0 or 1)
        throttle:use({number = 1, told = {id}, again = {1, count + 1}}, tonumber(score))
      end
      for _, value in ipairs({id, body, count + 1, first}) do
        recovered[#recovered + 1] = value
      end
      left = left - #body
    end
  end
  examined = examined + 1
end
return {examined, recovered}
