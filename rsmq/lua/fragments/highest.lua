-- The highest number of each of many names: a hash from name to msgpack of {number, its decision
-- that is not carried out or '', ms when it expires}. The field '' has the cursor of the next
-- clean-up.

-- Returns the highest number of a name; nil without one.
local function highest_of(key, name)
  local stored = redis.call('HGET', key, name)
  return stored and cmsgpack.unpack(stored)[1]
end

-- Stores the number unless a higher one is stored, and returns whether it did. If there are many
-- names, it reads some of them and removes those that have expired.
local function raise_to(key, name, number, lifetime)
  local last, now = highest_of(key, name), server_time_ms()
  if last and last > number then
    return false
  end
  redis.call('HSET', key, name, cmsgpack.pack({number, '', now + lifetime}))
  keep_for(key, lifetime)
  if redis.call('HLEN', key) > 100 then
    local scan = redis.pcall('HSCAN', key, redis.call('HGET', key, '') or '0', 'COUNT', '20')
    local members = scan[2] or {} -- if the user lacks the right, they expire with the key
    for at = 1, #members, 2 do
      if members[at] ~= '' and cmsgpack.unpack(members[at + 1])[3] < now then
        redis.call('HDEL', key, members[at])
      end
    end
    redis.call('HSET', key, '', scan[1] or '0')
  end
  return true
end
