-- Stores messages as a part that no consumer sees, until publish_staged.lua sends or restores them. After the
-- decision of its batch, stores nothing: a late attempt of a task would leave parts that are never published.
--
-- KEYS[1] hash      hash     the queue's attributes, bodies and counters
-- KEYS[2] staged    hash     messages by write, batch, attempt and part
-- KEYS[3] written   hash     the last batch of each write, as in fragments/highest.lua
-- ARGV[1] part      string   the name of this part: write, batch, attempt and number with colons between
-- ARGV[2] largest   integer  size of the largest body, as in send_message.lua
-- ARGV[3] delay     integer  ms from publishing until they are visible, as in send_message.lua; '' = the queue's delay
-- ARGV[4] lifetime  integer  ms for which `staged` is stored at least
-- ARGV[5] expires   integer  ms after which the messages expire; '' = never
-- ARGV[6] messages  bytes    as publish_staged.lua reads them
--
-- returns 1; 0 if the batch is decided already
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node
-- @include time_ms.lua
-- @include sending.lua
-- @include limiting.lua
-- @include lifetime.lua
-- @include highest.lua

local hash, staged, written = KEYS[1], KEYS[2], KEYS[3]
local part, largest, delay, lifetime, expires, messages = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local stored, wait = sendable(hash, largest, delay, server_time_ms())
local refusal = stored and refusal_of_expiry(wait, expires) or not stored and wait
if refusal then
  return refusal
end
local write, batch = string.match(part, '^(.*):(%d+):[^:]*:[^:]*$')
local last = highest_of(written, write)
if last and last >= tonumber(batch) then
  return 0
end
redis.call('HSET', staged, part, messages)
keep_for(staged, lifetime)
return 1
