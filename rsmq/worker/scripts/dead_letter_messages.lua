-- Moves messages to a dead-letter queue with their counters, each given its receipt, and stores beside
-- that queue why each became a dead letter, for a bounded number of messages. A tracked message that is to be
-- cancelled is removed instead.
--
-- KEYS[1] in_flight    hash        the worker's messages in flight, as in fragments/in_flight.lua
-- KEYS[2] to_hash      hash        the dead-letter queue's attributes, bodies and counters
-- KEYS[3] to_zset      sorted set  the dead-letter queue's message ids
-- KEYS[4] reasons      hash        by message id of the dead-letter queue: ms of the move, and the reason
-- KEYS[5] hash         hash        the queue's attributes, bodies and counters
-- KEYS[6] zset         sorted set  the queue's message ids
-- ARGV[1] token        string      token of the calling worker
-- ARGV[2] name         string      the queue's name
-- ARGV[3] bound        integer     maximum number of stored reasons
-- ARGV[4] lifetime     integer     ms for which reasons are stored at least
-- ARGV[5] quarantined  integer     '1' if the messages ran in quarantine, else ''
-- ARGV[6] tracked      integer     ms for which their records live if they are tracked, else ''
-- ARGV[7...] messages  strings     for each message its id, receive count, reason and, if tracked, error
--                                  and progress, as for settle_messages.lua
--
-- returns a digit for each message: 1 it was moved or removed, 0 it is not in the queue or has no body, 2 it was
--         received again since
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include full.lua
-- @include local_keys.lua
-- @include dead_letters.lua
-- @include lifetime.lua
-- @include reasons.lua
-- @include workers.lua
-- @include in_flight.lua
-- @include tracked.lua
-- @include leaving.lua

local in_flight, to_hash, to_zset, reasons = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hash, zset = KEYS[5], KEYS[6]
local token, name, bound, lifetime, quarantined, tracked = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local messages = ARGV

local stored = queue(to_hash, 'x:limited')
if not stored then
  return queue_not_found(to_hash)
end
allow_removal(to_zset, to_hash) -- these fail on a key of another type, before anything is changed
redis.call('ZADD', to_zset, 'XX', '0', '\0none')
allow_removal(zset, hash)
require_local_beside(zset, ':x:unbegun')
require_local_target(to_zset, stored[4], messages[7] or '')
local to = {zset = to_zset, hash = to_hash, has_limits = stored[4]}
if quarantined == '1' then
  require_local_beside(zset, ':x:alone')
end
if tracked ~= '' then
  require_local_beside(zset, ':x:job:')
end
local has_own_name = has_name(in_flight, token)
local room = room_for_reasons(reasons, to_zset, tonumber(bound))

local now, answer = digits(server_time_ms()), {}
for at = 7, #messages, tracked ~= '' and 5 or 3 do
  local id, count, reason, result = messages[at], messages[at + 1], messages[at + 2], {}
  match_receipts(hash, zset, {id}, count, result)
  local is_complete = redis.call('ZSCORE', zset, id) and redis.call('HEXISTS', hash, id) == 1
    and not is_reserved(id)
  if result[1] == '1' and not is_complete then
    result[1] = '0'
  elseif result[1] == '1' then
    if quarantined == '1' then
      delete_records(zset, {id}, false)
    end
    local is_cancelled = false
    if tracked ~= '' then -- this removes the message if it is to be cancelled and its record can be written
      local outcome = {'fail', tracked, messages[at + 3], messages[at + 4]}
      settle_jobs(hash, zset, {id}, {1}, count, outcome, 1, tonumber(now))
      is_cancelled = not redis.call('ZSCORE', zset, id)
    end
    if not is_cancelled then
      transfer(zset, hash, to, id, now)
      note_left(zset, hash, {id})
    end
    if room > 0 and not is_cancelled then
      redis.call('HSET', reasons, id, now .. ':' .. reason)
      room = room - 1
    end
  end
  if has_own_name then
    delete_in_flight(in_flight, {id}, count .. ':' .. name, {})
  end
  answer[#answer + 1] = result[1]
end
keep_for(reasons, lifetime)
return table.concat(answer)
