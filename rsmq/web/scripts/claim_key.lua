-- Stores the digest of what is sent with an Idempotency-Key, before the send.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] dedup    hash        records by dedup_id, and those of digests by longer names
-- ARGV[1] name     string      the name of the record, longer than any dedup_id
-- ARGV[2] digest   string      the digest
-- ARGV[3] window   integer     ms for which it is remembered, longer than the dedup_id of the send
-- ARGV[4] dedup_id string      a dedup_id of the send
--
-- returns 1 if it is the first digest of this name within the window, or the same one, which is then remembered for
--         the window from now, as the dedup_id may be; else 0
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include dedup.lua

local hash, dedup = KEYS[1], KEYS[2]
local name, digest, window, dedup_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = queue(hash, 'created', 'x:named')
if not stored then
  return queue_not_found(hash)
end
local created, is_named = stored[4], stored[5]
local now = server_time_ms()
local before = sent_before(dedup, name, created, is_named, now)
if before and before ~= digest then
  return 0
end
if before and sent_before(dedup, dedup_id, created, is_named, now + 60000) then -- the send stores nothing
  return 1
end
local records = {[name] = digest}
forget(dedup, records, 1, hash, is_named, now, window)
remember(dedup, records, created, now, window)
prolong(dedup, window)
return 1
