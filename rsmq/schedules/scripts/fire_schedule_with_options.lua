-- Sends the messages of the due ticks of a schedule, whose messages have options, and stores its next tick. None is sent
-- while a message with their unique_key is in the queue; of several ticks the first one is sent then.
--
-- KEYS[1] schedules    hash        definitions by name, and their states
-- KEYS[2] due          sorted set  names by the ms of the next attempt; +inf = none
-- KEYS[3] hash         hash        the queue's attributes, bodies and counters
-- KEYS[4] zset         sorted set  the queue's message ids
-- KEYS[5] unique       hash        message ids by unique_key; the queue's hash again = without a unique_key
-- KEYS[6] limits       hash        limits by message id; the queue's hash again = without limits
-- ARGV[1] name         string      the schedule
-- ARGV[2] definition   bytes       the definition that the caller has read
-- ARGV[3] tick         integer     ms of the tick that the caller has read
-- ARGV[4] last         integer     ms of the last tick that is fired or skipped
-- ARGV[5] next         integer     ms of the next tick, later than the last one; '' = none
-- ARGV[6] at           integer     ms of the attempt for the next tick
-- ARGV[7] largest      integer     size of the largest body, as in send_message.lua
-- ARGV[8] channel      string      channel for the number of messages; '' = none
-- ARGV[9] key          string      their unique_key; '' = none
-- ARGV[10] expires     integer     ms after which they expire; '' = never
-- ARGV[11] retries     integer     their own number of retries; '' = that of the policy
-- ARGV[12...] messages bytes       for each tick the body, and the 22 last characters of the id
--
-- returns {1 or, if the tick is not due any more, 0; the id of an earlier message with the unique_key or ''; ids}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include sending.lua
-- @include id.lua
-- @include unique.lua
-- @include limiting.lua
-- @include firing.lua
-- @include options.lua

local schedules, due, hash, zset, unique, limits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local name, definition, tick, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local next, at, largest, channel = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local key, expires, retries = ARGV[9], ARGV[10], ARGV[11]
local messages = ARGV

local us = server_time_us()
local now = math.floor(us / 1000)
local score = due_score(schedules, due, name, definition, tick, now)
if not score then
  return {0}
elseif next ~= '' and next + 0 <= last + 0 or last + 0 < tick + 0 then
  return redis.error_reply('INVALIDVALUE next ' .. next)
end
local fields, members, ids, earlier = {}, {}, {}, ''
if #messages > 11 then
  local stored, wait = sendable(hash, largest, '', now, 'x:limited')
  local refusal = not stored and wait or refusal_of_expiry(wait, expires)
  if refusal then
    return refusal
  end
  earlier = key ~= '' and holder_of(unique, key, hash, zset) or ''
  local visible_at = score_of(zset, '', now, wait)
  for each = 12, earlier == '' and (key ~= '' and 13 or #messages) or 0, 2 do
    local id = base36(us) .. messages[each + 1]
    ids[#ids + 1] = id
    fields[#fields + 1], fields[#fields + 2] = id, messages[each]
    members[#members + 1], members[#members + 2] = visible_at, id
  end
  if #ids > 0 then
    redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails if memory is full; after the next ones Redis allows all
    prepare_options(unique, key, limits, hash, zset, #ids, stored[4])
    if channel ~= '' then
      redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + #ids)
    end
  end
end
redis.call('ZADD', due, 'XX', next == '' and '+inf' or at, name)
local failure = #ids > 0 and send(hash, zset, fields, members, ids)
if not failure then
  failure = #ids > 0 and store_options(unique, key, limits, hash, ids, limits_record(retries, expires, now))
    or store_state(schedules, name, next, last, now, earlier ~= '' and {earlier} or ids)
  if failure and #ids > 0 then
    unsend(hash, zset, ids)
  end
end
if failure then -- the user may lack a right
  redis.call('ZADD', due, score, name)
  return failure
end
redis.pcall('HDEL', schedules, name .. ':failure') -- the user may lack the right: it is done nevertheless
return {1, earlier, unpack(ids)}
