-- Moves visible messages that were received as often as the queue's policy allows to its dead-letter
-- queue, whose name is stored in the queue, from a position on; one step of a walk.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] from       score       the position: its score, '-inf' = the first step
-- ARGV[2] seen       integer     the position: ids of that score already read
-- ARGV[3] most       integer     the maximum number of messages
-- ARGV[4] namespace  string      first part of the keys of a dead-letter queue
--
-- returns {score of the next position or nil at the end, ids of that score already read, {ids moved}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include full.lua
-- @include totals.lua
-- @include dead_letters.lua
-- @include variadic.lua
-- @include walk.lua
-- @include leaving.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, most, namespace = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = queue(hash, 'x:dlq', 'x:max', 'x:limited')
if not stored then
  return queue_not_found(hash)
end
local dead = policy(namespace, zset, stored[4], stored[5], stored[6])
if not dead then
  return {false, 0, {}}
end
allow_removal(zset, hash)

local now = digits(server_time_ms())
local found = next_ids(zset, from, seen, now, 1000)
local names = {}
for at = 1, #found, 2 do
  names[#names + 1] = found[at] .. ':rc'
end
local counts, moved, gone, passed = values_of('HMGET', hash, names), {}, {}, 0
while passed < #names and #moved < tonumber(most) do
  local id = found[2 * passed + 1]
  local count = whole(counts[passed + 1])
  if (dead.limited or count >= dead.limit) and redis.call('HEXISTS', hash, id) == 1 and not is_reserved(id)
    and is_dead(zset, hash, id, count, dead) then
    transfer(zset, hash, dead, id, now)
    note_left(zset, hash, {id})
    gone[id] = true
    moved[#moved + 1] = id
  end
  passed = passed + 1
end
local score, behind = place_behind(found, passed, from, seen, gone)
return {(#names == 1000 or passed < #names) and score, behind, moved}
