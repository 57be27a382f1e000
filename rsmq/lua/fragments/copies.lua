-- The hash `copied` beside a queue: digests of the messages that were copied to it from another system.

-- Returns whether the digests belong to this queue, and not to a deleted queue of the same name.
local function is_of_queue(copied, hash)
  return redis.call('HGET', copied, 'created') == (redis.call('HGET', hash, 'created') or '')
end

-- Deletes all digests, and marks the hash as belonging to this queue.
local function reset_copies(copied, hash)
  redis.call('UNLINK', copied)
  redis.call('HSET', copied, 'created', redis.call('HGET', hash, 'created') or '')
end
