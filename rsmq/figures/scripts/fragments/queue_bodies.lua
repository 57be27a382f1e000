-- The bytes of the bodies of a queue, for read_queues.lua.
-- @include digits.lua

-- Returns about how many they are, by those of at most 20 messages, in equal distances; nothing without a message.
local function queue_bodies(hash, zset)
  local messages = redis.call('ZCARD', zset)
  local looked, bytes = math.min(messages, 20), 0
  for place = 0, looked - 1 do
    local at = digits(math.floor(place * messages / looked))
    bytes = bytes + redis.call('HSTRLEN', hash, redis.call('ZRANGE', zset, at, at)[1])
  end
  return looked > 0 and digits(math.floor(bytes / looked * messages)) or nil
end
