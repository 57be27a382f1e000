-- Releases the last part of a batch: removes it from the batch, and makes its messages visible whose receipts are
-- still valid, at their old places: their scores are their sent times. If an id does not have this time, the score
-- is the time of the receive. If the batch ends before the part or behind it, changes nothing. If there is a
-- dead-letter policy, stores that this receive of the messages began no handler call.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- KEYS[3] leases  hash        receipts by stream, batch and part
-- KEYS[4] acked   hash        the holder of each query, as in fragments/highest.lua
-- ARGV[1] stream  string      name of the stream
-- ARGV[2] number  integer     number of the batch
-- ARGV[3] part    integer     number of the part, from 0
-- ARGV[4] query   string      the query's name in `acked`
-- ARGV[5] holder  string      id of the process
-- ARGV[6] policy  string      '1': there is a policy, also if the queue has none
--
-- returns number of messages that were released
-- errors  LEASETAKENOVER. Without the queue or the part there is nothing to release
-- source  none in Node; it writes what npm rsmq 0.12.4 changeMessageVisibility writes
-- @include digits.lua
-- @include full.lua
-- @include unbegun.lua
-- @include leases.lua
-- @include highest.lua

local hash, zset, leases, acked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, number, part, query, holder, policy = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

-- Returns the ms at which a message was sent; that of its receive, if its id is none of Node's form or has a later time.
local function place_of(id, received)
  if #id ~= 32 or not string.find(id, '^%w+$') or not string.find(id, '%u') then
    return received
  end
  return math.min(math.floor(tonumber(string.sub(id, 1, 10), 36) / 1000), received)
end

allow_when_full(zset)
local _, stored_holder = highest_of(acked, query)
if (stored_holder or holder) ~= holder then
  return redis.error_reply('LEASETAKENOVER ' .. stream)
end
local batch = stream .. ':' .. number
local stored = redis.call('HGET', leases, batch)
local sizes = stored and cmsgpack.unpack(stored) or {}
if #sizes - 2 ~= tonumber(part) then
  return 0
end
local name = batch .. ':' .. part
local ids, counts, packed = receipts_of(leases, name)
local leased, members = {}, {}
if ids then
  leased = still_leased(hash, zset, ids, counts)
  local received = cmsgpack.unpack(packed)[1]
  for each = 1, #leased do
    members[2 * each - 1], members[2 * each] = digits(place_of(leased[each], received)), leased[each]
  end
end
local records = {}
if #leased > 0 and (policy == '1' or redis.call('HGET', hash, 'x:dlq')) then
  for each, earlier in ipairs(unbegun_receives(zset, hash, leased)) do
    records[2 * each - 1], records[2 * each] = leased[each], digits(earlier + 1)
  end
end
for at = 1, #members, 4000 do
  redis.call('ZADD', zset, 'XX', unpack(members, at, math.min(at + 3999, #members)))
end
sizes[#sizes] = nil
redis.call('HDEL', leases, name)
if #sizes > 1 then
  redis.call('HSET', leases, batch, cmsgpack.pack(sizes))
else
  redis.call('HDEL', leases, batch)
end
if #records > 0 then
  record_unbegun(zset, hash, records)
end
return #leased
