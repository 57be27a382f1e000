-- Adds messages to a queue, in order; one with a dedup_id only if no message with it was sent
-- within the window.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- KEYS[3] records     hash        sends by dedup_id; only with dedup_ids
-- ARGV[1] largest     integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay       integer     ms until they are visible, as in send_message.lua
-- ARGV[3] suffixes    string      the 22 random characters of each id, sorted
-- ARGV[4] channel     string      channel for the number of messages; '' = none
-- ARGV[5] window      integer     ms for which a second send with a dedup_id adds nothing; '' = none
-- ARGV[6...] bodies   bytes       the messages; with dedup_ids each is followed by its own, '' = none
--
-- returns {first part of the ids, nil or, with dedup_ids, for each message the id sent before, else ''}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include digits.lua
-- @include sending.lua
-- @include id.lua
-- @include totals.lua
-- @include dedup.lua
-- @include variadic.lua

local hash, zset, records = KEYS[1], KEYS[2], KEYS[3]
local largest, delay, suffixes, channel, window = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local bodies = ARGV

local us = server_time_us()
local now, time = math.floor(us / 1000), base36(us)
local stored, wait = sendable(hash, largest, delay, now, 'created')
if not stored then
  return wait
end

local score = score_of(zset, delay, now, wait)
local fields, members, earlier_ids, new, number, is_repeated = {}, {}, {}, {}, 0, false
local stride = window == '' and 1 or 2
for each = 1, (#bodies - 5) / stride do
  local at = 6 + (each - 1) * stride
  local name, earlier = stride == 2 and bodies[at + 1] or '', false
  if name ~= '' then
    earlier = new[name] or sent_before(records, name, stored[4], now)
    is_repeated = is_repeated or earlier
  end
  earlier_ids[each] = earlier or ''
  if not earlier then
    local id = time .. string.sub(suffixes, 22 * each - 21, 22 * each)
    number = number + 1
    fields[2 * number - 1], fields[2 * number] = id, bodies[at]
    members[2 * number - 1], members[2 * number] = score, id
    if name ~= '' then
      new[name] = id
    end
  end
end

if number > 0 then -- in the order of send_message.lua
  redis.call('ZADD', zset, 'XX', '0', '')
  if channel ~= '' then
    redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + number)
  end
  if next(new) then
    forget(records, now, number, tonumber(window))
    for name, id in pairs(new) do
      remember(records, name, stored[4], now + window, id)
    end
  end
  add_to(hash, 'totalsent', number)
  variadic('HSET', hash, fields)
  variadic('ZADD', zset, members)
end
if is_repeated and number == 0 then
  -- A change, for a WAIT on this connection: without one it would not wait for the replicas.
  redis.call('PEXPIRE', records, digits(math.max(redis.call('PTTL', records), tonumber(window))))
end
return {time, stride == 2 and earlier_ids or false}
