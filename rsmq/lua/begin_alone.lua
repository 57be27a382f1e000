-- Notes that a message is about to be handled with nothing beside it, for the case that it takes its
-- handler's process down.
--
-- KEYS[1] alone     hash     of messages that were handled so, and of which no end is known, how often, and
--                            the receive count of the last time, as 'times:count'
-- ARGV[1] id        string   the message's id
-- ARGV[2] count     integer  its receive count
-- ARGV[3] lifetime  integer  ms for which it is noted
--
-- returns how often it was begun so before and never ended
-- errors  none
-- source  none in Node
-- @include lifetime.lua

local alone = KEYS[1]
local id, count, lifetime = ARGV[1], ARGV[2], ARGV[3]

redis.call('HDEL', alone, '') -- no message has this id: when memory is full, it allows the next
local times, last = string.match(redis.call('HGET', alone, id) or '', '^(%d+):(%d+)$')
times = tonumber(times or 0)
if last ~= count then -- else an attempt of this call whose reply was lost
  redis.call('HSET', alone, id, times + 1 .. ':' .. count)
  keep_for(alone, lifetime)
  return times
end
return times - 1
