-- Opens a copy from another system, or continues the open one.
--
-- KEYS[1] hash      hash     the queue's attributes, bodies and counters
-- KEYS[2] copied    hash     digests of the messages that were copied, and facts about the copy
-- ARGV[1] lifetime  integer  ms for which the hash is kept from now on
-- ARGV[2] field     string   the field for the digest of a list without ids
-- ARGV[3] list      string   the digest of that list as a whole; '' for a source with ids
--
-- returns the Unix microsecond when the copy was opened, and the digest of its list, '' for none
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include copies.lua

local hash, copied = KEYS[1], KEYS[2]
local lifetime, field, list = ARGV[1], ARGV[2], ARGV[3]

if not queue(hash) then
  return queue_not_found(hash)
end
if not is_of_queue(copied, hash) then
  reset_copies(copied, hash)
end
redis.call('PEXPIRE', copied, lifetime) -- first: when memory is full, it allows the next
redis.call('HSETNX', copied, 'begun', digits(server_time_us()))
if list ~= '' then
  redis.call('HSETNX', copied, field, list)
end
return {redis.call('HGET', copied, 'begun'), redis.call('HGET', copied, field) or ''}
