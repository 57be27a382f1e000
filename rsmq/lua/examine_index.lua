-- What stands where the names of queues are kept, and what the server says of itself.
--
-- KEYS[1] queues  set  the names of all queues
--
-- returns {ms now, its type, ms until it expires or a negative number, names in it, INFO's text or nil
--         where the user may not ask}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include kind.lua

local queues = KEYS[1]

local kind = kind_of(queues)
local number = kind == 'set' and redis.call('SCARD', queues) or 0
local info = redis.pcall('INFO')
return {digits(server_time_ms()), kind, redis.call('PTTL', queues), number, not info.err and info}
