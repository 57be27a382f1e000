-- Records that a message is about to run in quarantine, in case it crashes its worker.
--
-- KEYS[1] quarantined  hash     quarantine records by message id: of messages whose run has no known
--                               outcome, 'number of runs:receive count of the last run'
-- ARGV[1] id           string   the message's id
-- ARGV[2] count        integer  its receive count
-- ARGV[3] lifetime     integer  ms for which the records are stored
--
-- returns the number of earlier runs without a known outcome
-- errors  none
-- source  none in Node
-- @include lifetime.lua

local quarantined = KEYS[1]
local id, count, lifetime = ARGV[1], ARGV[2], ARGV[3]

redis.call('HDEL', quarantined, '\0none') -- no message has this id: when memory is full, it allows the next
local times, last = string.match(redis.call('HGET', quarantined, id) or '', '^(%d+):(%d+)$')
times = tonumber(times or 0)
if last ~= count then -- else this is a retry: the reply to an earlier attempt of this call was lost
  redis.call('HSET', quarantined, id, times + 1 .. ':' .. count)
  keep_for(quarantined, lifetime)
  return times
end
return times - 1
