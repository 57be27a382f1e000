-- Opens a copy from another system, or goes on with the open one.
--
-- KEYS[1] hash      hash     the queue's attributes, bodies and counters
-- KEYS[2] copied    hash     digests of what was copied, and what is known of the copy
-- ARGV[1] lifetime  integer  ms to keep them from now on
-- ARGV[2] field     string   under which the digest of a plain list is kept
-- ARGV[3] list      string   digest of that list as a whole; '' for what has ids
--
-- returns the microsecond when it was opened, and the digest of the list it is of, '' for none
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
  begin_anew(copied, hash)
end
redis.call('HSETNX', copied, 'begun', digits(server_time_us()))
if list ~= '' then
  redis.call('HSETNX', copied, field, list)
end
redis.call('PEXPIRE', copied, lifetime)
return {redis.call('HGET', copied, 'begun'), redis.call('HGET', copied, field) or ''}
