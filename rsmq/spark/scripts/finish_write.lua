-- Stores that the decision of a batch was carried out; see decide_write.lua.
--
-- KEYS[1] written   hash     the last batch of each write, as in fragments/highest.lua
-- ARGV[1] write     string   the name of the write
-- ARGV[2] batch     integer  the number of the batch
-- ARGV[3] lifetime  integer  ms until this is deleted
--
-- returns the number of the last stored batch: this one, or a later one
-- errors  none
-- source  none in Node
-- @include highest.lua

local written = KEYS[1]
local write, batch, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3]

return raise_to(written, write, batch, lifetime) and batch or highest_of(written, write)
