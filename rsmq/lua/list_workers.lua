-- Who is alive, and who was lately.
--
-- KEYS[1] workers  hash  who is alive
--
-- returns {ms now, {name, 'ms until when:token:what it says of itself', name ...}}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local workers = KEYS[1]

return {digits(server_time_ms()), redis.call('HGETALL', workers)}
