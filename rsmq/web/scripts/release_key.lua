-- Forgets the digest of an Idempotency-Key whose send was refused, so that the key can be used again.
--
-- KEYS[1] hash      hash      the queue's attributes, bodies and counters
-- KEYS[2] dedup     hash      records by dedup_id, and those of digests by longer names
-- ARGV[1] name      string    the name of the digest's record
-- ARGV[2] digest    string    the digest
-- ARGV[3] dedup_id  string    a dedup_id of the send; if it has a record, something was sent
--
-- returns 1 if the digest was forgotten, else 0
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include dedup.lua

local hash, dedup = KEYS[1], KEYS[2]
local name, digest, dedup_id = ARGV[1], ARGV[2], ARGV[3]

local stored = queue(hash, 'created', 'x:named')
if not stored then
  return queue_not_found(hash)
end
local created, is_named = stored[4], stored[5]
local now = server_time_ms()
if sent_before(dedup, dedup_id, created, is_named, now) or sent_before(dedup, name, created, is_named, now) ~= digest then
  return 0
end
return redis.call('HDEL', dedup, name)
