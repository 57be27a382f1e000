-- Returns one value of each of several queues, by which a list of them is sorted.
--
-- KEYS[1...] queues  hash and sorted set  of each queue: its hash, then its sorted set of ids
-- ARGV[1] sort       string               depth, visible, hidden, oldest, sent, received, created or dead_letters
-- ARGV[2] prefix     string               what the names of keys have before the name of a queue
--
-- returns for each queue {the value as digits, the dead-letter queue of its policy}, each nil if it has none; nil if its
--         keys have another type. oldest is the score of the first message if that is visible
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include time_ms.lua

local queues = KEYS
local sort, prefix = ARGV[1], ARGV[2]

local now = digits(server_time_ms())
local fields = {sent = 'totalsent', received = 'totalrecv', created = 'created'}

local function value_of(hash, zset, target)
  if fields[sort] then
    return redis.call('HGET', hash, fields[sort])
  elseif sort == 'depth' then
    return redis.call('ZCARD', zset)
  elseif sort == 'visible' then
    return redis.call('ZCOUNT', zset, '-inf', now)
  elseif sort == 'hidden' then
    return redis.call('ZCOUNT', zset, '(' .. now, '+inf')
  elseif sort == 'dead_letters' then
    return target and redis.call('ZCARD', prefix .. target)
  end
  return redis.call('ZRANGEBYSCORE', zset, '-inf', now, 'WITHSCORES', 'LIMIT', '0', '1')[2]
end

local function read(hash, zset)
  local target = redis.call('HGET', hash, 'x:dlq')
  local value = value_of(hash, zset, target)
  return {value and tostring(value) or false, target}
end

local values = {}
for at = 1, #queues, 2 do
  local has_read, each = pcall(read, queues[at], queues[at + 1])
  values[#values + 1] = has_read and each
end
return values
