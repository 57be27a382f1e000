-- The time to live of keys of extension data: the longest that any of their users asks for.

-- Lets a key live for at least so many ms.
local function keep_for(key, lifetime)
  if redis.call('PTTL', key) < tonumber(lifetime) then
    redis.call('PEXPIRE', key, lifetime)
  end
end
