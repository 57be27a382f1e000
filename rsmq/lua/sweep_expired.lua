-- Removes the visible messages of a queue that are expired, or moves them to its dead-letter queue, from a position on;
-- one step of a walk. Those that are dead letters by its policy stay for sweep_dead_letters or a receive.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] from       score       the position: its score, '-inf' = the first step
-- ARGV[2] seen       integer     the position: ids of that score already read
-- ARGV[3] most       integer     the maximum number of messages
-- ARGV[4] namespace  string      first part of the keys of a dead-letter queue
--
-- returns {score of the next position or nil at the end, ids of that score already read, {ids removed or moved}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include full.lua
-- @include totals.lua
-- @include dead_letters.lua
-- @include expired.lua
-- @include walk.lua
-- @include leaving.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, most, namespace = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = queue(hash, 'x:keep', 'x:limited', 'x:dlq', 'x:max')
if not stored then
  return queue_not_found(hash)
end
local expires = expiry(namespace, zset, hash, stored[4], stored[5])
if not expires then
  return {false, 0, {}}
end
allow_removal(zset, hash)
local dead = policy(namespace, zset, stored[6], stored[7], stored[5])

local now, gone_ids, gone, passed = server_time_ms(), {}, {}, 0
local found = next_ids(zset, from, seen, digits(now), 1000)
while passed < #found / 2 and #gone_ids < tonumber(most) do
  local id = found[2 * passed + 1]
  if redis.call('HEXISTS', hash, id) == 1 and not is_reserved(id) and is_expired(zset, id, now, expires)
    and not (dead and is_dead(zset, hash, id, whole(redis.call('HGET', hash, id .. ':rc')), dead)) then
    expire(zset, hash, id, now, expires)
    note_left(zset, hash, {id})
    gone[id] = true
    gone_ids[#gone_ids + 1] = id
  end
  passed = passed + 1
end
local score, behind = place_behind(found, passed, from, seen, gone)
return {(#found == 2000 or passed < #found / 2) and score, behind, gone_ids}
