-- Adds a subscriber of a queue, with a queue of its own.
--
-- KEYS[1] subscribers  hash        the record of subscribers
-- KEYS[2] source_hash  hash        attributes, bodies and counters of the queue that it subscribes to
-- KEYS[3] hash         hash        attributes, bodies and counters of its own queue
-- KEYS[4] zset         sorted set  the message ids of its own queue
-- KEYS[5] queues       set         the names of all queues
-- KEYS[6] targets      hash        the states of push targets
-- ARGV[1] source       string      the queue that it subscribes to
-- ARGV[2] name         string      the subscriber's name
-- ARGV[3] own          string      the name of its own queue
-- ARGV[4] record       JSON        its settings, an object that is not empty
-- ARGV[5] replace      integer     '1' = replace the settings of a subscriber of this name, else ''
-- ARGV[6] most         integer     the most subscribers of the namespace
-- ARGV[7] most_of_one  integer     the most subscribers of one queue
-- ARGV[8] target       string      its field in the states of push targets, which an earlier one may have left
--
-- returns {outcome, the stored record or a name}: 'added'; 'same' if it is stored already; 'replaced';
--         'exists' with other settings, or is being removed; 'queue' if its own queue exists already;
--         'full' if there are too many; 'chain' if one of the two queues would be the source and the queue
--         of subscribers. Only the first and the third change something
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include subscribers.lua
-- @include subscriber_queue.lua

local subscribers, source_hash, hash, zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local queues, targets = KEYS[5], KEYS[6]
local source, name, own, record = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local replace, most, most_of_one, target = ARGV[5], ARGV[6], ARGV[7], ARGV[8]

if not queue(source_hash) then
  return queue_not_found(source_hash)
end
local us, field = server_time_us(), source .. '/' .. name
local stored = redis.call('HGET', subscribers, field)
local has_queue = queue(hash) or redis.call('HLEN', hash) > 0
has_queue = redis.call('ZCARD', zset) > 0 or has_queue -- fails on a key of another type, before any change

local created = digits(math.floor(us / 1000))
if stored then
  local earlier, settings = string.match(stored, '^{"created":(%d+),(.*)$')
  if settings == string.sub(record, 2) and queue(hash) then
    return {'same', stored}
  elseif settings ~= string.sub(record, 2) and replace ~= '1' then
    return {'exists', stored}
  end
  created = earlier or created
else
  if has_queue then
    return {'queue', own}
  end
  local others, number = redis.call('HGETALL', subscribers), 0
  for at = 1, #others, 2 do
    local from, subscriber = string.match(others[at], '^(.*)/([^/]*)$')
    number = number + (from == source and 1 or 0)
    if from and (from .. '-' .. subscriber == source or from == own) then
      return {'chain', others[at]}
    end
  end
  if number >= tonumber(most_of_one) or #others / 2 > tonumber(most) then
    return {'full', number >= tonumber(most_of_one) and most_of_one or most}
  end
end

record = '{"created":' .. created .. ',' .. string.sub(record, 2)
local version = next_version(subscribers, us)
create_subscriber_queue(hash, queues, own, us)
redis.call('HDEL', targets, target)
redis.call('HSET', subscribers, '', version, field, record)
return {stored and 'replaced' or 'added', record}
