-- Returns the attributes of a queue in the order of attribute_fields.lua, then the numbers of ids and of hidden ids, and
-- the score of the first hidden id or nil.
-- @include attribute_fields.lua
-- @include digits.lua
-- @include time_ms.lua

local function describe(hash, zset)
  local now = digits(server_time_ms())
  local fields = redis.call('HMGET', hash, unpack(attribute_fields()))
  local next_due = redis.call('ZRANGEBYSCORE', zset, '(' .. now, '+inf', 'WITHSCORES',
    'LIMIT', '0', '1')
  return {fields, redis.call('ZCARD', zset), redis.call('ZCOUNT', zset, '(' .. now, '+inf'),
    next_due[2] or false}
end
