-- Removes the time to live of keys.
--
-- KEYS[1...] keys  keys  any
--
-- returns how many had one
-- errors  none
-- source  none in Node

local keys = KEYS

local number = 0
for at = 1, #keys do
  number = number + redis.call('PERSIST', keys[at])
end
return number
