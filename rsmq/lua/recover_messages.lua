-- Delivers again what was received a time ago and not deleted, from a place on, and hides it; one
-- step of a walk. What was received as often as the queue's policy allows is moved to the
-- dead-letter queue, whose keys are known only here.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] from       score       the place: its score, '-inf' = the first step
-- ARGV[2] seen       integer     the place: ids of that score that lie behind
-- ARGV[3] to         score       the last score to look at; '' = the first step
-- ARGV[4] idle       integer     ms since the last receive, as score minus vt tells
-- ARGV[5] vt         integer     ms to hide them; '' = the queue's vt
-- ARGV[6] most       integer     how many messages at most
-- ARGV[7] room       integer     bytes of bodies at most, but for the first
-- ARGV[8] namespace  string      first part of the keys of a dead-letter queue
--
-- returns {score of the next place or nil at the end, ids of that score that lie behind, last score
--         to look at, {id, body, receive count, first-received ms, id ...}}
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  none in Node; what is written is what npm rsmq 0.12.4 receiveMessage writes
-- @include _time.lua
-- @include _attributes.lua
-- @include _due.lua
-- @include _dead_letters.lua
-- @include _variadic.lua
-- @include _walk.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, to, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local vt, most, room, namespace = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
most, room = tonumber(most), tonumber(room)

local stored = queue(hash, 'x:dlq', 'x:max', 'totalrecv')
if not stored then
  return queue_not_found(hash)
end
local stored_vt = stored_ms(stored[1])
if not stored_vt then
  return no_number('vt', stored[1])
end
require_integer(hash, 'totalrecv', stored[6])
allow_removal(zset, hash)
local dead = policy(namespace, zset, stored[4], stored[5])

local now = server_time_ms()
to = to ~= '' and to or digits(now - idle + stored_vt)
local found = next_ids(zset, from, seen, to, 1000)
local names = {}
for at = 1, #found, 2 do
  names[#names + 1] = found[at] .. ':rc'
end
local counts, taken, gone, passed = values_of('HMGET', hash, names), {}, {}, 0
local score = digits(now + (vt ~= '' and vt or stored_vt))
while passed < #names and #taken < 4 * most and (room > 0 or #taken == 0) do
  local id, count = found[2 * passed + 1], decimal(counts[passed + 1])
  local fields = count and redis.call('HMGET', hash, id, id .. ':fr')
  if fields and fields[1] then
    gone[id] = true
    if dead and count >= dead.limit then
      transfer(zset, hash, dead, id, digits(now))
    else
      local first = fields[2] or digits(now)
      redis.call('HSET', hash, id .. ':rc', digits(count + 1), id .. ':fr', first)
      redis.call('ZADD', zset, score, id)
      for _, value in ipairs({id, fields[1], count + 1, first}) do
        taken[#taken + 1] = value
      end
      room = room - #fields[1]
    end
  end
  passed = passed + 1
end
if #taken > 0 then
  redis.call('HINCRBY', hash, 'totalrecv', #taken / 4)
end
local place, behind = place_behind(found, passed, from, seen, gone)
return {(#names == 1000 or passed < #names) and place, behind, to, taken}
