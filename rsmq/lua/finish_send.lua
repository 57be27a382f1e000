-- Adds the ids of messages whose bodies were stored by earlier commands of the same MULTI. If they
-- can't be added, removes the bodies again. See begin_send.lua.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] largest   integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay     integer     ms until they are visible, as in send_message.lua
-- ARGV[3] now       integer     the time of the ids in ms
-- ARGV[4] channel   string      channel for the number of messages; '' = none
-- ARGV[5...] new_ids string     the ids, in order
--
-- returns 1
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include sending.lua
-- @include totals.lua
-- @include variadic.lua

local hash, zset = KEYS[1], KEYS[2]
local largest, delay, now, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local new_ids = ARGV
local ids = {}
for at = 5, #new_ids do
  ids[at - 4] = new_ids[at]
end

local function add()
  local stored, wait = sendable(hash, largest, delay, tonumber(now))
  if not stored then
    return wait
  end
  redis.call('ZREM', zset, '\0none') -- allows the rest even if the bodies have filled the memory
  if channel ~= '' then
    redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + #ids)
  end
  add_to(hash, 'totalsent', #ids)
  local score = score_of(zset, delay, tonumber(now), wait)
  local members = {}
  for at, id in ipairs(ids) do
    members[2 * at - 1], members[2 * at] = score, id
  end
  variadic('ZADD', zset, members)
  return 1
end

local done, answer = pcall(add)
if done and answer == 1 then
  return 1
end
variadic('HDEL', hash, ids)
if type(answer) ~= 'table' then -- Redis 6.2 raises texts, which begin with the line in the script
  answer = redis.error_reply((string.gsub(answer, '^@user_script: ?%d+: ?', '')))
end
return answer
