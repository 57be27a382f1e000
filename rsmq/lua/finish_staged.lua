-- Records that a decision was carried out; see adopt_staged.lua.
--
-- KEYS[1] written   hash     by write its last batch, as in fragments/highest.lua
-- ARGV[1] write     string   the name of the write
-- ARGV[2] batch     integer  the number of the batch
-- ARGV[3] lifetime  integer  ms until this expires
--
-- returns the number of the last batch: this one, or a later one that was already decided
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include lifetime.lua
-- @include highest.lua

local written = KEYS[1]
local write, batch, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3]

return raise_to(written, write, batch, lifetime) and batch or highest_of(written, write)
