-- Sends or restores the messages of a staged part, and empties the part: an empty part was published.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- KEYS[3] staged   hash        messages by write, batch, attempt and part: {delay, random characters of
--                              the ids, {body ...}, the options as in fragments/packed.lua, if there are
--                              some}, or {'restore', '', rows as in fragments/restoring.lua, and for
--                              each of the records in fragments/carried.lua {id, record, id ...}}
-- KEYS[4] records  hash        sends by dedup_id
-- KEYS[5] unique   hash        message ids by unique_key
-- KEYS[6] limits   hash        limits by message id
-- KEYS[7] rates    sorted set  times by key, as in fragments/rates.lua
-- ARGV[1] part     string      the name of the part
-- ARGV[2] channel  string      where to publish the number of messages; '' = nowhere
--
-- returns number of messages that were added, 0 if the part was published before; nil if it does not exist
-- errors  QUEUENOTFOUND, INVALIDVALUE; never MESSAGETOOLONG, which was checked when the part was staged
-- source  none in Node; each message is sent as npm rsmq 0.12.4 sendMessage sends it
-- @include time_us.lua
-- @include queue.lua
-- @include sending.lua
-- @include id.lua
-- @include totals.lua
-- @include variadic.lua
-- @include digits.lua
-- @include carried.lua
-- @include carried_keys.lua
-- @include restoring.lua

local hash, zset, staged = KEYS[1], KEYS[2], KEYS[3]
local records, unique, limits, rates = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local part, channel = ARGV[1], ARGV[2]

local packed = redis.call('HGET', staged, part)
if not packed then
  return false
elseif packed == '' then
  return 0
end
local parts = cmsgpack.unpack(packed)
local delay, suffixes, messages, options = unpack(parts)
local us = server_time_us()
local now, number = math.floor(us / 1000), #messages
if delay == 'restore' then
  if not queue(hash) then
    return queue_not_found(hash)
  end
  local records = {}
  for place, name in ipairs(carried_keys()) do
    records[name] = parts[3 + place] -- an earlier version has stored fewer
  end
  local carried = carried_of(zset, records, false)
  prepare_carried(zset, hash, carried)
  number = restore(hash, zset, messages, 1, digits(now))
  store_carried(zset, hash, carried, now)
elseif options then
  -- @include publishing.lua
  local send = {largest = 0, delay = delay, suffixes = suffixes, channel = channel, arguments = messages, before = 0}
  local added, refusal = publish_with_options(hash, zset, {records, unique, limits, rates}, send, options, us)
  if refusal then
    return refusal
  end
  number, channel = added, '' -- they were announced
else
  local stored, wait = sendable(hash, 0, delay, now) -- sizes were checked when the part was staged
  if not stored then
    return wait
  end
  local score, time, fields, members = score_of(zset, delay, now, wait), base36(us), {}, {}
  for each = 1, number do
    local id = time .. string.sub(suffixes, 22 * each - 21, 22 * each)
    fields[2 * each - 1], fields[2 * each] = id, messages[each]
    members[2 * each - 1], members[2 * each] = score, id
  end
  redis.call('ZADD', zset, 'XX', '0', '\0none')
  add_to(hash, 'totalsent', number)
  variadic('HSET', hash, fields)
  variadic('ZADD', zset, members)
end
redis.call('HSET', staged, part, '')
if channel ~= '' and number > 0 then
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
end
return number
