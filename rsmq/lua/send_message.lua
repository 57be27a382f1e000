-- Adds a message to a queue.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1] body     bytes       the message
-- ARGV[2] size     integer     its size in UTF-16 code units of text or bytes of bytes; 0 = any size
-- ARGV[3] delay    integer     ms until it is visible; '' = the queue's delay, 'front' = now, before all;
--                              'at ' and 15 digits = the Unix ms at which it becomes visible
-- ARGV[4] suffix   string      the 22 random characters of its id
-- ARGV[5] channel  string      channel for the number of messages; '' = none
--
-- returns the id
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  npm rsmq 0.12.4 sendMessage; one step instead of two transactions and a PUBLISH
-- @include time_us.lua
-- @include digits.lua
-- @include id.lua
-- @include usual.lua

local hash, zset = KEYS[1], KEYS[2]
local body, size, delay, suffix, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local us = server_time_us()
local now = math.floor(us / 1000)
local stored = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'totalsent')
local score
if stored[1] and stored[2] and stored[3] and usual(stored[4], 15)
  and (stored[3] == '-1' or usual(stored[3], 7) and size + 0 <= stored[3] + 0)
  and #delay < 11 and delay ~= 'front' and (delay ~= '' or usual(stored[2], 7)) then
  score = digits(now + (delay ~= '' and delay or stored[2] * 1000))
else -- the slow path for unusual values
  -- @include queue.lua
  -- @include attributes.lua
  -- @include sending.lua
  -- @include totals.lua
  local found, wait = sendable(hash, size, delay, now)
  if not found then
    return wait
  end
  stored[4] = as_integer(stored[4])
  score = score_of(zset, delay, now, wait)
end
if channel ~= '' then -- first, since the user may lack the right; subscribers can't read yet
  redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails if the commands below would fail
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + 1)
end

local id = base36(us) .. suffix
-- The first change: it fails if memory is full, and on a key of another type.
redis.call('ZADD', zset, score, id)
local written
if usual(stored[4], 15) then
  written = redis.pcall('HSET', hash, id, body, 'totalsent', digits((stored[4] or 0) + 1))
else
  written = redis.pcall('HINCRBY', hash, 'totalsent', '1')
  written = type(written) == 'table' and written or redis.pcall('HSET', hash, id, body)
end
if type(written) == 'table' then -- the user may lack the right
  redis.call('ZREM', zset, id)
  return written
end
return id
