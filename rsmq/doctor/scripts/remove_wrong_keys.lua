-- Removes keys that have another type than they should.
--
-- KEYS[1...] keys   keys     the keys
-- ARGV[1...] kinds  strings  the type that each should have, as TYPE names it
--
-- returns how many were removed
-- errors  none
-- source  none in Node
-- @include kind.lua

local keys = KEYS
local kinds = ARGV

local number = 0
for at, key in ipairs(keys) do
  local kind = kind_of(key)
  if kind ~= 'none' and kind ~= kinds[at] then
    number = number + redis.call('UNLINK', key)
  end
end
return number
