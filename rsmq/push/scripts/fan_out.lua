-- Moves visible messages of a queue to the queue of each subscriber, with their ids and scores, without their
-- counters. Messages with groups have them in these queues too.
--
-- KEYS[1] subscribers  hash              the record of subscribers
-- KEYS[2] queues       set               the names of all queues
-- KEYS[3] hash         hash              the source's attributes, bodies and counters
-- KEYS[4] zset         sorted set        the source's message ids
-- KEYS[5...] own_keys  hash, sorted set  for each subscriber the two keys of its queue
-- ARGV[1] version      string            the version of the record that the caller has read
-- ARGV[2] namespace    string            first part of the keys of a dead-letter queue
-- ARGV[3] most         integer           the maximum number of messages
-- ARGV[4] room         integer           bytes of bodies at most; the first may be larger
-- ARGV[5...] names     strings           for each subscriber the name of its queue, which is created if it is
--                                        missing
--
-- returns the number of messages; -1 if the record has changed, -2 if the source is paused: then nothing is moved
-- errors  QUEUENOTFOUND of the source
-- source  none in Node; it leaves in each queue what npm rsmq 0.12.4 sendMessage leaves, in the source what
--         popMessage leaves
-- @include time_us.lua
-- @include digits.lua
-- @include local_groups.lua
-- @include regrouping.lua
-- @include due.lua
-- @include due_many.lua
-- @include origin.lua
-- @include queue.lua
-- @include subscribers.lua
-- @include subscriber_queue.lua
-- @include totals.lua
-- @include variadic.lua

local subscribers, queues, hash, zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local own_keys = KEYS
local version, namespace, most, room = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local names = ARGV

if version_of(subscribers) ~= version then
  return -1
end
local stored = queue(hash, 'x:paused', 'x:groups')
if not stored then
  return queue_not_found(hash)
elseif stored[4] then
  return -2
end
local us = server_time_us()
local now = math.floor(us / 1000)
if not redis.call('ZRANGEBYSCORE', zset, '-inf', digits(now), 'LIMIT', '0', '1')[1] then
  return 0
end

for at = 5, #own_keys, 2 do
  if stored[5] then
    require_local_group_keys(own_keys[at + 1])
  end
  redis.call('ZADD', own_keys[at + 1], 'XX', '0', '\0none') -- also fails when memory is full, or without the right
  redis.call('HDEL', own_keys[at], '\0none')
  if not queue(own_keys[at]) then
    create_subscriber_queue(own_keys[at], queues, names[(at + 5) / 2], us)
  end
end
local found, refusal = due_in_order({hash, zset}, namespace, now, tonumber(most), tonumber(room), true)
if not found then
  return refusal
end
local due, ids = found[1].due, {}
for each = 1, due.number do
  ids[each] = due.told[2 * each - 1]
  due.told[2 * each] = with_origin(due.told[2 * each], zset)
end
if due.number > 0 then
  local members, groups = {}, stored[5] and groups_of(zset, ids) or {}
  for each = 1, due.number do
    members[2 * each - 1], members[2 * each] = redis.call('ZSCORE', zset, ids[each]), ids[each]
  end
  for at = 5, #own_keys, 2 do
    add_to(own_keys[at], 'totalsent', due.number)
    variadic('HSET', own_keys[at], due.told)
    for from = 1, #members, 4000 do -- NX: a message that is there already keeps its score
      redis.call('ZADD', own_keys[at + 1], 'NX', unpack(members, from, math.min(from + 3999, #members)))
    end
    regroup(own_keys[at + 1], own_keys[at], groups, now)
  end
  add_to(hash, 'totalrecv', due.number)
  remove_messages(zset, hash, ids)
end
return due.number
