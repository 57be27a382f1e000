-- Adds messages of another system to a queue, each once. A message that was added before is
-- recognized by its digest, even if it was consumed since.
--
-- KEYS[1] hash         hash        the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set  the queue's message ids
-- KEYS[3] copied       hash        digests of the messages that were added
-- KEYS[4] unique       hash        message ids by unique_key; the queue's hash again = without unique_keys
-- ARGV[1] channel      string      channel for the number of messages; '' = none
-- ARGV[2] lifetime     integer     ms for which the digests are kept from now on
-- ARGV[3] run_field    string      the field of the hash that says which run may add messages; '' = any may
-- ARGV[4] run          string      the value of that field
-- ARGV[5] field        string      the field of the watermark; '' = none is stored
-- ARGV[6] watermark    string      the watermark behind these messages, as in fragments/incoming.lua
-- ARGV[7...] messages  strings     the messages, rows as in fragments/incoming.lua
--
-- returns a digit for each message: 1 it was added, 0 its id is in the queue, 2 it was added before and is
--         not in the queue any more
-- errors  QUEUENOTFOUND, RUNREPLACED; then nothing is added
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include variadic.lua
-- @include carried.lua
-- @include restoring.lua
-- @include unique.lua
-- @include copies.lua

local hash, zset, copied, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, lifetime, run_field, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local field, watermark = ARGV[5], ARGV[6]
local messages = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
if not is_current_run(copied, hash, run_field, run) then
  return redis.error_reply('RUNREPLACED ' .. copied)
end
local has_copies = is_of_queue(copied, hash)
local outcomes, rows, digests, keyed, carried = {}, {}, {}, {}, {}
for at = 7, #messages, 7 do
  local present = redis.call('ZSCORE', zset, messages[at + 1])
  local was_copied = has_copies and redis.call('HEXISTS', copied, messages[at]) == 1
  if not present and not was_copied then
    for place = 1, 5 do
      rows[#rows + 1] = messages[at + place]
    end
  end
  -- If the id has another body, it is another message, and this message was not added.
  local conflict = present and redis.call('HGET', hash, messages[at + 1]) ~= messages[at + 2]
  if not was_copied and not conflict then
    digests[#digests + 1], digests[#digests + 2] = messages[at], ''
    if not split_carried(carried, zset, messages[at + 1], messages[at + 6]) then
      claim_key(keyed, unique, messages[at + 6], messages[at + 1], hash, zset)
    end
  end
  outcomes[#outcomes + 1] = present and '0' or was_copied and '2' or '1'
end
prepare_carried(zset, hash, carried)
remove_free_keys(unique, keyed, #outcomes, zset)
local now = server_time_ms()
local added = restore(hash, zset, rows, 1, digits(now))
hold_keys(unique, keyed)
store_carried(zset, hash, carried, now)
if not has_copies then
  reset_copies(copied, hash)
end
if #digests > 0 then
  variadic('HSET', copied, digests)
end
redis.call('PEXPIRE', copied, lifetime)
store_watermark(copied, hash, field, watermark, lifetime)
if channel ~= '' and added > 0 then
  redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
end
return table.concat(outcomes)
