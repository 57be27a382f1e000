-- The registered workers: a hash by name, each with 'expiry ms:token:description as JSON'.

-- The ms at which it stops counting as alive, its token and its description; nothing if the name is free.
local function registered_worker(workers, name)
  local stored = redis.call('HGET', workers, name)
  local expires, token, info = string.match(stored or '', '^(%d+):(%w*):(.*)$')
  return tonumber(expires), token, info
end

-- Whether the caller has the name. If the key is lost, as with the server's data, no worker has the name:
-- then the caller gets it. `holder` is the token if the caller has read it.
local function has_name(in_flight, token, holder)
  holder = holder or redis.call('HGET', in_flight, '')
  if not holder then
    redis.call('HDEL', in_flight, ':') -- no message has this id: when memory is full, it allows the next
    redis.call('HSET', in_flight, '', token)
    redis.call('PEXPIRE', in_flight, '86400000') -- in case no heartbeat follows
  end
  return not holder or holder == token
end
