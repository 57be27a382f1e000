-- Notes that a decision was carried out; see adopt_staged.lua.
--
-- KEYS[1] written   hash     of each write the last batch and what was decided of it
-- ARGV[1] write     string   the name of the write
-- ARGV[2] batch     integer  the number of the batch
-- ARGV[3] lifetime  integer  ms until this is forgotten
--
-- returns 1; 0 if a later batch was decided already
-- errors  none
-- source  none in Node

local written = KEYS[1]
local write, batch, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local last = redis.call('HGET', written, write)
if last and unpack(cmsgpack.unpack(last)) > batch then
  return 0
end
redis.call('HSET', written, write, cmsgpack.pack({batch, ''}))
redis.call('PEXPIRE', written, lifetime)
return 1
