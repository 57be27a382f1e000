-- Deletes messages of one queue that a worker has handled, and sends for each the message that follows it, in one
-- step. A message of a map is counted instead, and the last one of the map sends what follows. The records of tracked
-- messages end here. A message whose next one is refused stays as it is; the others are not affected.
--
-- KEYS[1] in_flight    hash        the worker's messages in flight, as in fragments/in_flight.lua
-- KEYS[2] hash         hash        the queue's attributes, bodies and counters
-- KEYS[3] zset         sorted set  the queue's message ids
-- KEYS[4...] targets   hash, sorted set, hash  for each message the two keys of the queue of the next one, and the
--                                  record of its map: the numbers of the unfinished messages, and under 'then' the
--                                  size and the body of the next one, 'SIZE:BODY'; or its flow, as in
--                                  fragments/flows.lua; the hash of the queue without either
-- ARGV[1] token        string      token of the calling worker
-- ARGV[2] has_records  string      as in settle_messages.lua
-- ARGV[3] name         string      the queue's name
-- ARGV[4] number       integer     number of messages
-- ARGV[5] count        integer     their receive count
-- ARGV[6] lifetime     integer     ms for which the records of maps are stored from now on
-- ARGV[7...] messages  strings     for each message its id, its number in the map ('' = none; '+NUMBER' for a node that
--                                  adds others), the body of the next one (for a map its result or ''; for a node what
--                                  fragments/added_nodes.lua reads), its size in UTF-16 code units, the 22 random characters of its id,
--                                  and the channel for the number of messages ('' = none). After the last message come,
--                                  if they are tracked, the event 'succeed', ms for which an ended record lives, and
--                                  for each message its result and its progress, as for settle_messages.lua
--
-- returns for each message 1 it was finished, 0 it is not in the queue, 2 it was received again since, or why its next
--         message is refused: QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG or another error
-- errors  none
-- source  none in Node; it leaves what npm rsmq 0.12.4 deleteMessage and sendMessage leave
-- @include time_us.lua
-- @include due.lua
-- @include full.lua
-- @include local_keys.lua
-- @include next_message.lua
-- @include workers.lua
-- @include failed.lua
-- @include in_flight.lua
-- @include tracked.lua

local in_flight, hash, zset = KEYS[1], KEYS[2], KEYS[3]
local token, has_records, name = ARGV[1], ARGV[2], ARGV[3]
local number, count, lifetime = ARGV[4], ARGV[5], ARGV[6]
local targets = KEYS
local messages = ARGV
local tracked_at = 7 + 6 * number

allow_removal(zset, hash) -- also fails on a key of another type
require_local_records(zset, 'delete', has_records)
if messages[tracked_at] then
  require_local_beside(zset, ':x:job:')
end
local has_own_name = has_name(in_flight, token)
local us = server_time_us()
local now = math.floor(us / 1000)

local ids, results = {}, {}
for place = 1, number do
  ids[place] = messages[6 * place + 1]
end
local fit, places = match_receipts(hash, zset, ids, count, results)
local finished, settled = {}, {}
for each, id in ipairs(fit) do
  local place = places[each]
  if redis.call('ZSCORE', zset, id) then
    local is_run, refusal, sent = pcall(send_next, targets, 3 * place + 1, messages, 6 * place + 2, us, lifetime)
    if is_run and not refusal then
      settle_jobs(hash, zset, {id}, {place}, count, messages, messages[tracked_at] and tracked_at, now, results)
      if sent and messages[tracked_at] then
        local target = string.sub(targets[3 * place + 2], #zset - #name + 1)
        redis.pcall('HSET', zset .. ':x:job:' .. id, 'next', sent .. ' ' .. target) -- a user may lack the right
      end
      remove_messages(zset, hash, {id})
      finished[#finished + 1] = id
    else
      results[place] = type(refusal) == 'table' and refusal.err or tostring(refusal)
    end
  else
    results[place] = '0'
  end
end
for place = 1, number do
  settled[#settled + 1] = #results[place] == 1 and ids[place] or nil
end
forget_errors(zset, finished, count)
if has_own_name then
  delete_in_flight(in_flight, settled, count .. ':' .. name, finished)
end
if has_records == '1' then
  update_records(zset, finished, 'delete', count)
end
return results
