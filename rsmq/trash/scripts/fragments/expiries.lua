-- The times to live of keys that are restored.
-- @include digits.lua

-- Lets a key expire when the later one of two keys would have: the ms of the first, '' = never; and the ms that the
-- second would have lived, -1 = forever, -2 = there was none.
local function restore_expiry(key, ms, left, now)
  if ms == '' or left == -1 then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIREAT', key, digits(math.max(tonumber(ms), now + math.max(left, 0))))
  end
end

-- Gives kept keys their old names again.
local function rename_back(found, now)
  for _, each in ipairs(found) do
    local _, kept, ms, left = unpack(each)
    restore_expiry(kept, ms, left, now)
  end
  for _, each in ipairs(found) do
    redis.call('UNLINK', each[1])
    redis.call('RENAMENX', each[2], each[1])
  end
end
