-- What is kept of a copy from another system, beside the queue to which it goes.

-- Whether what is kept of copies is of this very queue, and not of one of its name that was deleted.
local function is_of_queue(copied, hash)
  return redis.call('HGET', copied, 'created') == (redis.call('HGET', hash, 'created') or '')
end

-- Makes it that of this queue.
local function begin_anew(copied, hash)
  redis.call('UNLINK', copied)
  redis.call('HSET', copied, 'created', redis.call('HGET', hash, 'created') or '')
end
