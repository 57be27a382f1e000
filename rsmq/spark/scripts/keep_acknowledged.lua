-- Stores the number of the last batch that a query acknowledged for longer.
--
-- KEYS[1] acked     hash     the last acknowledged batch of each query, as in fragments/acknowledged.lua
-- ARGV[1] query     string   the query's name in `acked`
-- ARGV[2] lifetime  integer  ms until it is deleted
--
-- returns that number; nil if none is stored
-- errors  none
-- source  none in Node
-- @include highest.lua
-- @include acknowledged.lua

local acked = KEYS[1]
local query, lifetime = ARGV[1], ARGV[2]

local last = highest_of(acked, query)
if not last then
  return false
end
note_acknowledged(acked, query, last, lifetime)
return last
