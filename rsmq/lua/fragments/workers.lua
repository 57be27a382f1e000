-- Who is alive: a hash of workers by name, each with 'ms until when:token:what it says of itself'.

-- Until when, whose token, and what it says; nothing if there is none of the name.
local function worker_of(workers, name)
  local stored = redis.call('HGET', workers, name)
  local to, token, info = string.match(stored or '', '^(%d+):(%w*):(.*)$')
  return tonumber(to), token, info
end

-- Whether the asker has the name. Nobody has it when the key is lost, as with the server's data.
local function has_name(held, token)
  local holder = redis.call('HGET', held, '')
  if not holder then
    redis.call('HDEL', held, ':') -- no message has this id: when memory is full, it allows the next
    redis.call('HSET', held, '', token)
    redis.call('PEXPIRE', held, '86400000') -- should no beat follow
  end
  return not holder or holder == token
end
