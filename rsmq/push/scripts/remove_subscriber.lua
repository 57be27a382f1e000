-- Removes a subscriber: at once with its queue, or when its queue is empty.
--
-- KEYS[1] subscribers    hash        the record of subscribers
-- KEYS[2] hash           hash        attributes, bodies and counters of its queue
-- KEYS[3] zset           sorted set  the message ids of its queue
-- KEYS[4] queues         set         the names of all queues
-- KEYS[5...] extensions  keys        extension data of its queue
-- ARGV[1] field          string      its field in the record
-- ARGV[2] own            string      the name of its queue
-- ARGV[3] mode           string      'drop' = with all messages; 'drain' = when its queue is empty, and until
--                                    then it gets no further message; 'finish' = if its queue is empty and
--                                    it is being removed
--
-- returns 0 if there is no such subscriber, or nothing to finish; 1 if it is removed when its queue is empty;
--         2 if it was removed
-- errors  none
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include subscribers.lua

local subscribers, hash, zset, queues = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local extensions = KEYS
local field, own, mode = ARGV[1], ARGV[2], ARGV[3]

local stored = redis.call('HGET', subscribers, field)
if not stored then
  return 0
end
local us, is_leaving = server_time_us(), string.find(stored, '^{"created":%d+,"removed":%d+,')
local number = redis.call('ZCARD', zset)
redis.call('HMGET', hash, 'vt') -- fails on a key of another type, before any change
redis.call('SREM', queues, '\0none') -- no queue has this name: when memory is full, it allows the next
if number > 0 and mode == 'finish' or mode == 'finish' and not is_leaving then
  return 0
elseif number > 0 and mode == 'drain' then
  if not is_leaving then
    local record = string.gsub(stored, '^({"created":%d+,)', '%1"removed":' .. digits(math.floor(us / 1000)) .. ',')
    redis.call('HSET', subscribers, '', next_version(subscribers, us), field, record)
  end
  return 1
end
local version = next_version(subscribers, us)
redis.call('SREM', queues, own)
redis.call('UNLINK', hash, zset, unpack(extensions, 5))
redis.call('HDEL', subscribers, field)
if redis.call('HLEN', subscribers) > 1 then
  redis.call('HSET', subscribers, '', version)
else
  redis.call('UNLINK', subscribers)
end
return 2
