-- Messages that came to the queue since a time, from a place on; one step of a walk. Nothing is
-- changed.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] from   score       the place: its score
-- ARGV[2] seen   integer     the place: ids of that score that lie behind
-- ARGV[3] to     score       where the walk ends; unless that is '+inf', also before the first
--                            message that is not new: what was sent to the front stands there
-- ARGV[4] since  integer     Unix ms: new is a message whose id tells a later time, and one that is
--                            visible since later
-- ARGV[5] room   integer     bytes of bodies at most, but for the first
--
-- returns {score of the next place or nil at the end, ids of that score that lie behind, now ms, vt
--         as stored, {id, body, receive count or '', first-received ms or '', score, id ...}, {why
--         each of them died or nil}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include walk.lua
-- @include id.lua
-- @include reasons.lua

local hash, zset = KEYS[1], KEYS[2]
local from, seen, to, since, room = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
since, room = tonumber(since), tonumber(room)

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local now, time = server_time_ms(), base36(since * 1000)

local function is_new(id, score)
  return #id == 32 and string.sub(id, 1, 10) >= time or score >= since and score <= now
end

local found = next_ids(zset, from, seen, to, 1000)
local messages, ids, passed, ended = {}, {}, 0, false
while passed < #found / 2 and room > 0 and not ended do
  local id, score = found[2 * passed + 1], found[2 * passed + 2]
  if is_new(id, tonumber(score)) then
    local body, times, first = unpack(redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr'))
    if body and not is_reserved(id) then
      room = room - #body
      ids[#ids + 1] = id
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
return {not ended and score, behind, digits(now), stored[1], messages, reasons_of(zset, ids)}
