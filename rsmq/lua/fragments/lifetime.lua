-- How long keys of extension data live: as long as the most patient of their users wants.

-- Lets a key live for so many ms at least.
local function keep_for(key, lifetime)
  if redis.call('PTTL', key) < tonumber(lifetime) then
    redis.call('PEXPIRE', key, lifetime)
  end
end
