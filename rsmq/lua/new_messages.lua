-- Returns messages that are new in the queue since a time, from a position on; one step of a walk.
-- Nothing is changed.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the position: its score
-- ARGV[2] seen   integer     the position: ids of that score already read
-- ARGV[3] to     score       where the walk ends; unless it is '+inf', the walk also ends at the first
--                            message that is not new, since messages sent to the front come first
-- ARGV[4] since  integer     Unix ms: a message is new if its id contains a later time, or if it became
--                            visible later
-- ARGV[5] room   integer     bytes of bodies at most, except for the first body
--
-- returns {score of the next position or nil at the end, ids of that score already read, now ms, vt
--         as stored, {id, body, receive count or '', first-received ms or '', score, id ...}, as in
--         fragments/shown.lua, {the error of the last attempt of each that waits for a retry, or what
--         add_groups puts there, or nil}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include walk.lua
-- @include id.lua
-- @include rank.lua
-- @include shown.lua
-- @include retrying.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, to, since, room = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
since, room = tonumber(since), tonumber(room)

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local now, time = server_time_ms(), base36(since * 1000)

local function is_new(id, score)
  return #id == 32 and not is_behind(time, string.sub(id, 1, 10)) or score >= since and score <= now
end

local found = next_ids(zset, from, seen, to, 1000)
local messages, ids, counts, passed, ended = {}, {}, {}, 0, false
while passed < #found / 2 and room > 0 and not ended do
  local id, score = found[2 * passed + 1], found[2 * passed + 2]
  if is_new(id, tonumber(score)) then
    local body, times, first = unpack(redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr'))
    if body and not is_reserved(id) then
      room = room - #body
      ids[#ids + 1] = id
      counts[#ids] = tonumber(score) > now and times
      for _, value in ipairs({id, body, times or '', first or '', score}) do
        messages[#messages + 1] = value
      end
    end
  else
    ended = to ~= '+inf'
  end
  passed = passed + 1
end
local score, behind = place_behind(found, passed, from, seen)
ended = ended or #found == 0
local errors = errors_of(zset, hash, ids, counts)
add_groups(zset, hash, ids, errors)
return {not ended and score, behind, digits(now), stored[1], messages, shown_of(zset, ids), errors}
