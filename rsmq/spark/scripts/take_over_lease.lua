-- Takes over the stream of a query, so that lease_messages.lua refuses every other process.
--
-- KEYS[1] acked     hash     the last acknowledged batch of each query, as in fragments/acknowledged.lua
-- ARGV[1] query     string   the query's name in `acked`
-- ARGV[2] holder    string   id of the process
-- ARGV[3] lifetime  integer  ms until it is deleted
--
-- returns the number of the last batch that was acknowledged, 0 if there is none
-- errors  none
-- source  none in Node
-- @include highest.lua
-- @include acknowledged.lua

local acked = KEYS[1]
local query, holder, lifetime = ARGV[1], ARGV[2], ARGV[3]

local last = highest_of(acked, query) or 0
note_acknowledged(acked, query, last, lifetime, holder)
return last
