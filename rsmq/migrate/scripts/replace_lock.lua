-- Gives a lock to a run, unless its holder has changed since it was read.
--
-- KEYS[1] lock      string   the holder of the lock
-- ARGV[1] holder    string   the holder that was read; empty for none
-- ARGV[2] run       string   the new holder
-- ARGV[3] lifetime  integer  ms until the lock ends by itself
--
-- returns 1 if the run has the lock, 0 if another one has it
-- errors  none
-- source  none in Node

local lock = KEYS[1]
local holder, run, lifetime = ARGV[1], ARGV[2], ARGV[3]

local found = redis.call('GET', lock) or ''
if found ~= holder and found ~= run then
  return 0
end
redis.call('SET', lock, run, 'PX', lifetime)
return 1
