-- Lists the stored states of push targets.
--
-- KEYS[1] targets  hash  the states of push targets
--
-- returns {ms now, {field, state, field ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local targets = KEYS[1]

return {digits(server_time_ms()), redis.call('HGETALL', targets)}
