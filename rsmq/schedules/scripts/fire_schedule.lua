-- Sends the messages of the due ticks of a schedule, and stores its next tick.
--
-- KEYS[1] schedules    hash        definitions by name, and their states
-- KEYS[2] due          sorted set  names by the ms of the next attempt; +inf = none
-- KEYS[3] hash         hash        the queue's attributes, bodies and counters
-- KEYS[4] zset         sorted set  the queue's message ids
-- ARGV[1] name         string      the schedule
-- ARGV[2] definition   bytes       the definition that the caller has read
-- ARGV[3] tick         integer     ms of the tick that the caller has read
-- ARGV[4] last         integer     ms of the last tick that is fired or skipped
-- ARGV[5] next         integer     ms of the next tick, later than the last one; '' = none
-- ARGV[6] at           integer     ms of the attempt for the next tick
-- ARGV[7] largest      integer     size of the largest body, as in send_message.lua
-- ARGV[8] channel      string      channel for the number of messages; '' = none
-- ARGV[9...] messages  bytes       for each tick the body, and the 22 last characters of the id
--
-- returns {1 or, if the tick is not due any more, 0; ids}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include sending.lua
-- @include id.lua
-- @include firing.lua

local schedules, due, hash, zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, definition, tick, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local next, at, largest, channel = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local messages = ARGV

local us = server_time_us()
local now = math.floor(us / 1000)
local score = due_score(schedules, due, name, definition, tick, now)
if not score then
  return {0}
elseif next ~= '' and next + 0 <= last + 0 or last + 0 < tick + 0 then
  return redis.error_reply('INVALIDVALUE next ' .. next)
end
local fields, members, ids = {}, {}, {}
if #messages > 8 then
  local stored, wait = sendable(hash, largest, '', now)
  if not stored then
    return wait
  end
  local visible_at = score_of(zset, '', now, wait)
  for each = 9, #messages, 2 do
    local id = base36(us) .. messages[each + 1]
    ids[#ids + 1] = id
    fields[#fields + 1], fields[#fields + 2] = id, messages[each]
    members[#members + 1], members[#members + 2] = visible_at, id
  end
  redis.call('ZADD', zset, 'XX', '0', '\0none') -- in the order of send_message.lua
  if channel ~= '' then
    redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + #ids)
  end
end
-- The first change: it fails if memory is full. The others can't fail for that then.
redis.call('ZADD', due, 'XX', next == '' and '+inf' or at, name)
local failure = #ids > 0 and send(hash, zset, fields, members, ids)
if not failure then
  failure = store_state(schedules, name, next, last, now, ids)
  if failure and #ids > 0 then
    unsend(hash, zset, ids)
  end
end
if failure then -- the user may lack a right
  redis.call('ZADD', due, score, name)
  return failure
end
redis.pcall('HDEL', schedules, name .. ':failure') -- the user may lack the right: it is done nevertheless
return {1, unpack(ids)}
