-- The highest number of each of many names: a hash by name, each value msgpack of {number, a text beside it (of a
-- write its decision, if that was not carried out), ms when it is deleted, the holder of the name if it has one}. The field '' has the
-- cursor of the next scan for expired names.
-- @include lifetime.lua
-- @include time_ms.lua

-- Returns the highest number of a name, its holder, the ms when it is deleted, and the text beside it; nil if none is
-- stored.
local function highest_of(key, name)
  local stored = redis.call('HGET', key, name)
  stored = stored and cmsgpack.unpack(stored) or {}
  return stored[1], stored[4], stored[3], stored[2]
end

-- Stores a number, and a text or '', unless a higher number is stored; returns whether it did. It is stored for the
-- lifetime, or longer if it was before. Without a new holder, the name has the same one as before. If there are more
-- than 100 names, scans about 20 of them and deletes those that are expired.
local function raise_to(key, name, number, lifetime, new_holder, text)
  local last, holder, expires = highest_of(key, name)
  local now = server_time_ms()
  if last and last > number then
    return false
  end
  local until_ms = math.max(now + lifetime, expires or 0)
  redis.call('HDEL', key, ':') -- has no such field: when memory is full, it allows the next
  redis.call('HSET', key, name, cmsgpack.pack({number, text or '', until_ms, new_holder or holder}))
  keep_for(key, lifetime)
  if redis.call('HLEN', key) > 100 then
    local scan = redis.pcall('HSCAN', key, redis.call('HGET', key, '') or '0', 'COUNT', '20')
    local members = scan[2] or {} -- without the right to scan, names are deleted with the key
    for at = 1, #members, 2 do
      if members[at] ~= '' and cmsgpack.unpack(members[at + 1])[3] < now then
        redis.call('HDEL', key, members[at])
      end
    end
    redis.call('HSET', key, '', scan[1] or '0')
  end
  return true
end
