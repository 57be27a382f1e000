-- Keeps the number of the last batch that a lease has acknowledged for longer.
--
-- KEYS[1] acked     hash     of each lease the last batch that was acknowledged, as in _highest.lua
-- ARGV[1] lease     string   the name of the lease
-- ARGV[2] lifetime  integer  ms until it is forgotten
--
-- returns that number; nil if none is stored
-- errors  none
-- source  none in Node
-- @include _time.lua
-- @include _lifetime.lua
-- @include _highest.lua

local acked = KEYS[1]
local lease, lifetime = ARGV[1], ARGV[2]

local last = highest_of(acked, lease)
if not last then
  return false
end
raise_to(acked, lease, last, lifetime)
return last
