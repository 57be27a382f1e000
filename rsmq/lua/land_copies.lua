-- Adds messages of another system to a queue, each once: what was added before, even if it was
-- consumed since, is known by its digest.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] copied    hash        digests of what was added
-- ARGV[1] channel   string      where to publish the number of messages; '' = don't
-- ARGV[2] lifetime  integer     ms to keep the digests from now on
-- ARGV[3...] given  strings     the messages, rows as in fragments/landing.lua
--
-- returns a digit for each message: 1 it was added, 0 it was there, 2 it was added before and is
--         not there any more
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include totals.lua
-- @include variadic.lua
-- @include restoring.lua
-- @include copies.lua

local hash, zset, copied = KEYS[1], KEYS[2], KEYS[3]
local channel, lifetime = ARGV[1], ARGV[2]
local given = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
local counts = is_of_queue(copied, hash)
local told, rows, digests = {}, {}, {}
for at = 3, #given, 6 do
  local there = redis.call('ZSCORE', zset, given[at + 1])
  local known = counts and redis.call('HEXISTS', copied, given[at]) == 1
  if not there and not known then
    for place = 1, 5 do
      rows[#rows + 1] = given[at + place]
    end
  end
  -- Another body under the id is another message: this one was not added.
  local other = there and redis.call('HGET', hash, given[at + 1]) ~= given[at + 2]
  if not known and not other then
    digests[#digests + 1], digests[#digests + 2] = given[at], ''
  end
  told[#told + 1] = there and '0' or known and '2' or '1'
end
local added = restore(hash, zset, rows, 1, digits(server_time_ms()))
if not counts then
  begin_anew(copied, hash)
end
if #digests > 0 then
  variadic('HSET', copied, digests)
end
redis.call('PEXPIRE', copied, lifetime)
if channel ~= '' and added > 0 then
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
end
return table.concat(told)
