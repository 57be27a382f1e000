-- The test whether a queue exists.

-- Returns vt, delay and maxsize as stored, and the other fields; nil unless the first three are all
-- stored: only then the queue exists.
local function queue(hash, ...)
  local stored = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', ...)
  if stored[1] and stored[2] and stored[3] then
    return stored
  end
end

local function queue_not_found(hash)
  return redis.error_reply('QUEUENOTFOUND ' .. hash)
end
