-- Returns messages as they are stored, from a position on; one step of a walk. Nothing is changed.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the position: its score, '' = the first step
-- ARGV[2] seen   integer     the position: ids of that score already read; if the score is '', the rank
-- ARGV[3] state  string      only those that are visible, in_flight, retrying, delayed or held_back; '' = all
-- ARGV[4] skip   integer     how many of them to skip
-- ARGV[5] count  integer     how many of them to return
-- ARGV[6] room   integer     bytes of bodies at most, except for the first body
--
-- returns {score of the next position or nil at the end, ids of that score already read, how many
--         are still to be skipped, now ms, vt as stored, {id, body, receive count or '',
--         first-received ms or '', score, id ...}, as in fragments/shown.lua, {the error of the last
--         attempt of each that waits for a retry, or what add_groups puts there, or nil}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include variadic.lua
-- @include walk.lua
-- @include shown.lua
-- @include retrying.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, state = ARGV[1], ARGV[2], ARGV[3]
local skip, count, room = ARGV[4], ARGV[5], ARGV[6]
skip, count, room = tonumber(skip), tonumber(count), tonumber(room)

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local now = digits(server_time_ms())
local hidden = state ~= '' and state ~= 'visible'
local found
if hidden then
  from = from == '' and '(' .. now or from
  found = next_ids(zset, from, seen, '+inf', 1000)
else -- the ranks of all messages, and of visible ones, follow from the position
  seen = seen + skip
  local last = seen + math.min(count, 1000)
  if state == 'visible' then
    last = math.min(last, redis.call('ZCOUNT', zset, '-inf', now))
  end
  found = last > seen and redis.call('ZRANGE', zset, seen, last - 1, 'WITHSCORES') or {}
end
local names, found_ids = {}, {}
for at = 1, #found, 2 do
  names[#names + 1], found_ids[#names + 1] = found[at] .. ':rc', found[at]
end
local counts, hidden_counts = values_of('HMGET', hash, names), {}
for at = 1, #names do
  hidden_counts[at] = tonumber(found[2 * at]) > tonumber(now) and counts[at]
end
local failures = errors_of(zset, hash, found_ids, hidden_counts)
add_groups(zset, hash, found_ids, failures)

local messages, ids, errors, passed = {}, {}, {}, 0
while passed < #names and #messages < 5 * count and (room > 0 or #messages == 0) do
  local id, score, times = found[2 * passed + 1], found[2 * passed + 2], counts[passed + 1]
  local failure = failures[passed + 1]
  if not hidden or state == hidden_state(failure, times) then
    local body, first = unpack(redis.call('HMGET', hash, id, id .. ':fr'))
    body = not is_reserved(id) and body
    if body and hidden and skip > 0 then
      skip = skip - 1
    elseif body then
      room = room - #body
      ids[#ids + 1], errors[#ids + 1] = id, failure
      for _, value in ipairs({id, body, times or '', first or '', score}) do
        messages[#messages + 1] = value
      end
    end
  end
  passed = passed + 1
end
local score, behind = '-inf', seen + passed
if hidden then
  score, behind = place_behind(found, passed, from, seen)
end
return {#names > 0 and score, behind, hidden and skip or 0, now, stored[1], messages, shown_of(zset, ids), errors}
