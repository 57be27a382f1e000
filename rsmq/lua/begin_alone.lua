-- Notes that a message is about to be handled with nothing beside it, for the case that it takes its
-- handler's process down.
--
-- KEYS[1] alone     hash     of messages that were handled so, and of which no end is known, receive counts
-- ARGV[1] id        string   the message's id
-- ARGV[2] count     integer  its receive count
-- ARGV[3] lifetime  integer  ms for which it is noted
--
-- returns the receive count with which it was begun so before and never ended; nil if it was not
-- errors  none
-- source  none in Node
-- @include _lifetime.lua

local alone = KEYS[1]
local id, count, lifetime = ARGV[1], ARGV[2], ARGV[3]

local before = redis.call('HGET', alone, id)
if not before or before == count then -- that of an attempt of this call whose reply was lost
  redis.call('HSET', alone, id, count)
  keep_for(alone, lifetime)
  return false
end
return before
