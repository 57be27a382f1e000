-- Adds a message to several queues, to all or to none.
--
-- KEYS[1...] queues    hash, sorted set  for each queue its two keys
-- ARGV[1] body         bytes             the message
-- ARGV[2] size         integer           its size in UTF-16 code units of text or bytes of bytes
-- ARGV[3] delay        integer           ms until it is visible, as in send_message.lua, but not 'front'
-- ARGV[4] options      string            those of send_with_options.lua that publish has
-- ARGV[5...] messages  strings           for each queue the 22 random characters of the id, and the
--                                        channel for the number of messages; '' = none
--
-- returns {ids}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG; then nothing is added to any queue
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include digits.lua
-- @include id.lua
-- @include packed.lua
-- @include sending.lua
-- @include limits.lua
-- @include limiting.lua
-- @include totals.lua

local queues = KEYS
local body, size, delay, options = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local messages = ARGV

local us = server_time_us()
local now, waits, limits, ids = math.floor(us / 1000), {}, {}, {}
local passed = read_options(options)
local expires, retries = passed.expires or '', passed.max_retries or ''
local record = (expires ~= '' or retries ~= '') and limits_record(retries, expires, now)
for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local found, wait = sendable(hash, size, delay, now, 'x:limited')
  local refusal = not found and wait or refusal_of_expiry(wait, expires)
  if refusal then
    return refusal
  end
  require_local_limits(zset, record)
  redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails if the commands below would fail
  if record then
    remove_free_limits(zset .. ':x:limits', 1, zset, found[4])
  end
  waits[at], limits[at] = wait, found[4]
end
for at = 1, #queues, 2 do
  local channel = messages[at + 5]
  if channel ~= '' then -- first, since the user may lack the right
    redis.call('PUBLISH', channel, redis.call('ZCARD', queues[at + 1]) + 1)
  end
end

for at = 1, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local id = base36(us) .. messages[at + 4]
  ids[#ids + 1] = id
  add_to(hash, 'totalsent', 1)
  if record then
    store_limits(hash, zset .. ':x:limits', limits[at], {id, body}, record)
  end
  redis.call('HSET', hash, id, body)
  redis.call('ZADD', zset, digits(now + waits[at]), id)
end
return ids
