-- Returns one value of each of several queues, by which a list of them is sorted.
--
-- KEYS[1...] queues  hash and sorted set  of each queue: its hash, then its sorted set of ids
-- ARGV[1] sort       string               depth, visible, hidden, oldest, sent, received or created
--
-- returns for each queue the value as digits; nil if it has none, or its keys have another type.
--         oldest is the score of the first message if that is visible
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include time_ms.lua

local queues = KEYS
local sort = ARGV[1]

local now = digits(server_time_ms())
local fields = {sent = 'totalsent', received = 'totalrecv', created = 'created'}

local function read(hash, zset)
  if fields[sort] then
    return redis.call('HGET', hash, fields[sort])
  elseif sort == 'depth' then
    return redis.call('ZCARD', zset)
  elseif sort == 'visible' then
    return redis.call('ZCOUNT', zset, '-inf', now)
  elseif sort == 'hidden' then
    return redis.call('ZCOUNT', zset, '(' .. now, '+inf')
  end
  return redis.call('ZRANGEBYSCORE', zset, '-inf', now, 'WITHSCORES', 'LIMIT', '0', '1')[2]
end

local values = {}
for at = 1, #queues, 2 do
  local has_read, value = pcall(read, queues[at], queues[at + 1])
  values[#values + 1] = has_read and value and tostring(value) or false
end
return values
