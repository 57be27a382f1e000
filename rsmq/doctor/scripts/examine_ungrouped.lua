-- Returns those of some messages whose group is stored nowhere.
--
-- KEYS[1] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[2] held_back  sorted set  the messages that are held back
-- KEYS[3] records    hash        the group of each message
-- ARGV[1...] ids     strings     their ids
--
-- returns {id ...}; none while x:group_of has fewer records than the lists, which a sweep repairs
-- errors  none
-- source  none in Node
-- @include sweeping_groups.lua

local admitted, held_back, records = KEYS[1], KEYS[2], KEYS[3]
local ids = ARGV

local ungrouped = {}
if surplus_of(records, admitted, held_back) >= 0 then
  for _, id in ipairs(ids) do
    if redis.call('HEXISTS', records, id) == 0 then
      ungrouped[#ungrouped + 1] = id
    end
  end
end
return ungrouped
