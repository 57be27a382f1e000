-- The queue of a subscriber.
-- @include digits.lua

-- Creates the queue, or its missing parts. Its maxsize is unlimited, so that it takes each message of the source. Its
-- first command fails before any change if memory is full, or on a key of another type.
local function create_subscriber_queue(hash, queues, name, us)
  local now = digits(math.floor(us / 1000000))
  redis.call('SADD', queues, name)
  for field, value in pairs({vt = '30', delay = '0', maxsize = '-1', created = now, modified = now}) do
    redis.call('HSETNX', hash, field, value)
  end
end
