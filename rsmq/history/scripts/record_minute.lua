-- Records what has happened in queues since their last record, and adds it to the sums of the namespace.
--
-- KEYS[1] history     hash     the history of the namespace
-- KEYS[2...] queues   keys     of each queue: its hash, its sorted set of ids, its history
-- ARGV[1] minute      integer  Unix minutes, the minute that was claimed; the one before it is recorded
-- ARGV[2] limit       integer  bytes of all histories of the namespace
-- ARGV[3] is_last     integer  1 in the last call of a minute, 0 before
--
-- returns the number of queues that were recorded; -1 if another process has claimed a later minute
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include packing.lua
-- @include sums.lua
-- @include recording.lua

local history = KEYS[1]
local queues = KEYS
local minute, limit, is_last = ARGV[1], ARGV[2], ARGV[3]
minute, limit = tonumber(minute), tonumber(limit)

local stored = redis.call('HMGET', history, 'minute', 'finished', 'share', 'bytes', 'sums')
if tonumber(stored[1] or 0) > minute then
  return -1
end
local finished = tonumber(stored[2] or 0)
if finished >= minute then -- the reply of the last call was lost
  return 0
end
local share, bytes = tonumber(stored[3] or 100), tonumber(stored[4] or 0)
local is_full = bytes > limit * 1.25
local now = server_time_ms()

local sums = parse_sums(stored[5])
if sums and sums[1][1] < minute then -- its process ended before the last call
  store_sums(history, sums, share)
  sums = nil
end
sums = sums or new_sums(minute)
local recorded = 0
for at = 2, #queues, 3 do
  local has_read, number = pcall(record_queue, queues[at], queues[at + 1], queues[at + 2],
    sums, minute, now, finished, share, is_full)
  recorded = recorded + (has_read and number or 0)
end
if is_last == '0' then
  redis.call('HSET', history, 'sums', pack_groups(sums))
  return recorded
end
bytes = sums[1][2] + store_sums(history, sums, share)
if minute % 60 == 0 then
  if bytes > limit then
    share = math.max(math.floor(share * 0.9 * limit / bytes), 1)
  elseif bytes < limit * 0.8 then
    share = math.min(share + 1, 100)
  end
end
redis.call('HSET', history, 'finished', digits(minute), 'share', digits(share), 'bytes', digits(bytes))
redis.call('HDEL', history, 'sums')
return recorded
