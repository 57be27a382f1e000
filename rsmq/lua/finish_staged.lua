-- Notes that a decision was carried out; see adopt_staged.lua. Where there are many writes, looks at
-- some and forgets those that have been kept for as long as they were to be; '' has the place.
--
-- KEYS[1] written   hash     of each write its last batch, what was decided of it and is not done, and
--                            ms when this is forgotten
-- ARGV[1] write     string   the name of the write
-- ARGV[2] batch     integer  the number of the batch
-- ARGV[3] lifetime  integer  ms until this is forgotten
--
-- returns 1; 0 if a later batch was decided already
-- errors  none
-- source  none in Node
-- @include _time.lua
-- @include _lifetime.lua

local written = KEYS[1]
local write, batch, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local last, now = redis.call('HGET', written, write), server_time_ms()
if last and cmsgpack.unpack(last)[1] > batch then
  return 0
end
redis.call('HSET', written, write, cmsgpack.pack({batch, '', now + lifetime}))
keep_for(written, lifetime)
if redis.call('HLEN', written) > 100 then
  local scan = redis.call('HSCAN', written, redis.call('HGET', written, '') or '0', 'COUNT', '20')
  for at = 1, #scan[2], 2 do
    if scan[2][at] ~= '' and cmsgpack.unpack(scan[2][at + 1])[3] < now then
      redis.call('HDEL', written, scan[2][at])
    end
  end
  redis.call('HSET', written, '', scan[1])
end
return 1
