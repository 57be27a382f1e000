-- Returns the record of a cell, and stores it first if there is none.
--
-- KEYS[1] record  hash     the set of cells that this namespace belongs to
-- ARGV[1] set     string   the id of the set; empty to store nothing
-- ARGV[2] index   integer  the number of the cell
-- ARGV[3] cells   integer  the number of cells of the set
--
-- returns {set, index, cells} as stored; nothing if there is no record and none was stored
-- errors  none
-- source  none in Node

local record = KEYS[1]
local set, index, cells = ARGV[1], ARGV[2], ARGV[3]

local stored = redis.call('HMGET', record, 'set', 'index', 'cells')
if stored[1] then
  return stored
end
if set ~= '' then
  redis.call('HSET', record, 'set', set, 'index', index, 'cells', cells)
  return {set, index, cells}
end
