-- Returns the state of the key that has the names of queues, and the server's reply to INFO.
--
-- KEYS[1] queues  set  the names of all queues
--
-- returns {ms now; its type; ms until it expires, negative if never; the number of names; the reply to INFO, or
--         nil if the user may not use it}
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
