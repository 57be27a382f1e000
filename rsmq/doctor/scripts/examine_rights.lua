-- Returns the commands that this user may not use: runs each in a form that changes nothing.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- KEYS[3] queues   set         the names of all queues
-- KEYS[4] nothing  none        a key that never exists
-- ARGV[1] name     string      the queue's name
--
-- returns an array of commands, in upper case
-- errors  none
-- source  none in Node

local hash, zset, queues, nothing = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name = ARGV[1]

-- No queue, no message and no field has this name. A set of names or a hash may have an empty one.
local absent = nothing
local refused = {}
local function try(command, ...)
  local answer = redis.pcall(command, ...)
  local failure = type(answer) == 'table' and answer.err or ''
  -- The texts of Redis 7.0, and of later versions and Valkey.
  if string.find(failure, "can't run", 1, true) or string.find(failure, 'permissions to run', 1, true) then
    refused[#refused + 1] = command
  end
  return answer
end

for _, command in ipairs({'HGETALL', 'HLEN', 'HKEYS', 'PTTL', 'UNLINK', 'EXISTS'}) do
  try(command, nothing)
end
try('HRANDFIELD', nothing)
try('ZMSCORE', nothing, absent)
try('ZREMRANGEBYRANK', nothing, '0', '0')
try('ZLEXCOUNT', nothing, '-', '+')
try('ZRANGEBYLEX', nothing, '-', '+')
try('TIME')
try('ASKING') -- concerns only the next command; fails without a cluster
try('HSCAN', nothing, '0')
try('PEXPIRE', nothing, '1')
for _, command in ipairs({'HMGET', 'HGET', 'HDEL', 'HEXISTS'}) do
  try(command, hash, absent)
end
try('HSET', hash, 'a', 'b', 'c') -- fails: a value is missing
try('HINCRBY', hash, absent, 'no number')
try('ZADD', zset, 'XX', '0', absent)
try('ZREM', zset, absent)
try('ZSCORE', zset, absent)
try('ZRANGEBYSCORE', zset, '0', '0', 'LIMIT', '0', '1')
try('ZCARD', zset)
try('ZCOUNT', zset, '0', '0')
try('ZRANGE', zset, '0', '0')
try('SREM', queues, absent)
if try('SISMEMBER', queues, name) == 1 then
  try('SADD', queues, name)
end
try('SMEMBERS', nothing)
if try('HEXISTS', hash, 'vt') == 1 then
  try('HSETNX', hash, 'vt', '')
end
return refused
