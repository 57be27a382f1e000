-- Notes that a message that was handled alone has ended.
--
-- KEYS[1] alone  hash    of messages that were handled so, and of which no end is known, as begin_alone.lua
--                        has it
-- ARGV[1] id     string  the message's id
--
-- returns 1 if it was noted, else 0
-- errors  none
-- source  none in Node

local alone = KEYS[1]
local id = ARGV[1]

return redis.call('HDEL', alone, id)
