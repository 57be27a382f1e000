-- The highest number of each of many names: a hash by name, each msgpack of {number, what was decided of it
-- and is not done or '', ms when it is forgotten}. The field '' has the place where the next clearing starts.

-- The highest number of a name; nil without one.
local function highest_of(key, name)
  local stored = redis.call('HGET', key, name)
  return stored and cmsgpack.unpack(stored)[1]
end

-- Stores the number unless a higher one is stored; whether it did. Where there are many names, it looks at
-- some and removes those whose time is over.
local function raise_to(key, name, number, lifetime)
  local last, now = highest_of(key, name), server_time_ms()
  if last and last > number then
    return false
  end
  redis.call('HSET', key, name, cmsgpack.pack({number, '', now + lifetime}))
  keep_for(key, lifetime)
  if redis.call('HLEN', key) > 100 then
    local scan = redis.call('HSCAN', key, redis.call('HGET', key, '') or '0', 'COUNT', '20')
    for at = 1, #scan[2], 2 do
      if scan[2][at] ~= '' and cmsgpack.unpack(scan[2][at + 1])[3] < now then
        redis.call('HDEL', key, scan[2][at])
      end
    end
    redis.call('HSET', key, '', scan[1])
  end
  return true
end
