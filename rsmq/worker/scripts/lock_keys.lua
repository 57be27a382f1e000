-- Locks keys for messages in flight. A lock is void if its message is no longer in flight at the same receive.
--
-- KEYS[1] hash          hash        the queue's attributes, bodies and counters
-- KEYS[2] zset          sorted set  the queue's message ids
-- KEYS[3] locks         hash        the receipt 'receive count:id' that has the lock, by the name of the locks, '=' and
--                                   the key; under '' and ':' as in fragments/unbegun.lua; it expires after seven days
-- ARGV[1...] messages   strings     for each message its id, its receive count and the field of its lock
--
-- returns a digit for each message: 1 it has the lock, 0 another message has it
-- errors  none
-- source  none in Node
-- @include time_ms.lua

local hash, zset, locks = KEYS[1], KEYS[2], KEYS[3]
local messages = ARGV

local now, answer = server_time_ms(), {}
local function is_valid(receipt)
  local count, id = string.match(receipt, '^(%d+):(.*)$')
  local score = count and redis.call('HGET', hash, id .. ':rc') == count and redis.call('ZSCORE', zset, id)
  return score and tonumber(score) > now
end

redis.call('HDEL', locks, '-') -- no such field: when memory is full, it allows the next
local created = redis.call('HGET', hash, 'created') or ''
if redis.call('HGET', locks, '') ~= created then
  redis.call('UNLINK', locks)
  redis.call('HSET', locks, '', created)
end
for at = 1, #messages, 3 do
  local receipt, field = messages[at + 1] .. ':' .. messages[at], messages[at + 2]
  local owner = redis.call('HGET', locks, field)
  if owner and owner ~= receipt and is_valid(owner) then
    answer[#answer + 1] = '0'
  else
    redis.call('HSET', locks, field, receipt)
    answer[#answer + 1] = '1'
  end
end
if redis.call('HLEN', locks) > 10000 then -- clear a part of those that are void
  local found = redis.call('HSCAN', locks, redis.call('HGET', locks, ':') or '0', 'COUNT', '1000')
  for at = 1, #found[2], 2 do
    if string.find(found[2][at], '=', 1, true) and not is_valid(found[2][at + 1]) then
      redis.call('HDEL', locks, found[2][at])
    end
  end
  redis.call('HSET', locks, ':', found[1])
end
redis.call('PEXPIRE', locks, '604800000')
return table.concat(answer)
