-- Lists workers: those that are alive, and those that died not long ago.
--
-- KEYS[1] workers  hash  workers by name, as in fragments/workers.lua
--
-- returns {ms now, {name, 'expiry ms:token:description as JSON', name ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local workers = KEYS[1]

return {digits(server_time_ms()), redis.call('HGETALL', workers)}
