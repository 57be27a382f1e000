-- Returns how many of the first ids have bodies that fit into a number of bytes together, at least one.
--
-- KEYS[1] hash    hash     the queue's attributes, bodies and counters
-- ARGV[1] room    integer  the most bytes of bodies
-- ARGV[2...] ids  strings  the messages' ids
--
-- returns that number
-- errors  none
-- source  none in Node

local hash = KEYS[1]
local room = ARGV[1]
local ids = ARGV
room = tonumber(room)

for at = 2, #ids do
  room = room - redis.call('HSTRLEN', hash, ids[at])
  if room < 0 and at > 2 then
    return at - 2
  end
end
return #ids - 1
