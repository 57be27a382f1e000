-- Adds messages with options to a queue, in order. A message is not added if one with its dedup_id was sent within
-- the window. Nor is it added if one with its unique_key is in the queue; that one may be replaced.
--
-- KEYS[1] hash         hash        the queue's attributes, bodies and counters
-- KEYS[2] zset         sorted set  the queue's message ids
-- KEYS[3] records      hash        sends by dedup_id; the queue's hash again = without dedup_ids
-- KEYS[4] unique       hash        message ids by unique_key; the queue's hash again = without unique_keys
-- KEYS[5] limits       hash        limits by message id; the queue's hash again = without limits
-- KEYS[6] rates        sorted set  times by key, as in fragments/rates.lua; the queue's hash again = without a rate
-- ARGV[1] largest      integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay        integer     ms until they are visible, as in send_message.lua
-- ARGV[3] suffixes     string      the 22 random characters of each id, sorted
-- ARGV[4] channel      string      channel for the number of messages; '' = none
-- ARGV[5] window       integer     ms for which a second send with a dedup_id adds nothing; '' = without dedup_ids
-- ARGV[6] replace      integer     1 = replace the message that has the unique_key, unless it was received; 0 = keep it
-- ARGV[7] max_wait     integer     ms after its first send by which a replaced message is visible; '' = any time
-- ARGV[8] expires      integer     ms after which the messages expire; '' = never
-- ARGV[9] retries      integer     their own number of retries; '' = that of the policy
-- ARGV[10] track       integer     1 = new and replaced messages get a record, as in fragments/jobs.lua; '' = none does
-- ARGV[11] interval    integer     microseconds between the messages of a group or limit key; '' = without a rate
-- ARGV[12...] messages  bytes      for each message its body, its dedup_id, its unique_key and its group, as in
--                                  fragments/groups.lua; '' = without it
--
-- returns {first part of the ids, for each message the id of the earlier message in its place, else ''}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include sending.lua
-- @include id.lua
-- @include storing.lua
-- @include dedup.lua
-- @include unique.lua
-- @include limiting.lua
-- @include tracking.lua
-- @include grouping.lua
-- @include held_back.lua
-- @include rates.lua
-- @include was_received.lua

local hash, zset, records, unique, limits, rates = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local largest, delay, suffixes, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local window, replace, max_wait, expires, retries = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local track, interval = ARGV[10], ARGV[11]
local messages = ARGV

local us = server_time_us()
local now, time = math.floor(us / 1000), base36(us)
local stored, wait = sendable(hash, largest, delay, now, 'created', 'x:limited', 'x:groups', 'x:named',
  'x:rated')
local refusal = not stored and wait or refusal_of_expiry(wait, expires)
if refusal then
  return refusal
end
require_local_jobs(zset, track)
require_local_groups(zset, suffixes)
local drops_limits = may_drop_limits(limits, hash, zset, replace, stored[5])
local score = score_of(zset, delay, now, wait)
local fields, members, named, keyed, groups = {}, {}, {}, {}, {} -- what to write; named and keyed have message ids
local earlier_ids, number, is_repeated, times = {}, 0, false, {}
for each = 1, (#messages - 11) / 4 do
  local at = 12 + (each - 1) * 4
  local body, name, key, group = messages[at], messages[at + 1], messages[at + 2], messages[at + 3]
  local sent = name ~= '' and (named[name] or sent_before(records, name, stored[4], stored[7], now))
  local id = sent or key ~= '' and (keyed[key] or holder_of(unique, key, hash, zset))
  if id and not sent and replace == '1' then
    id = not was_received(hash, id) and id
    put(fields, id, body)
    put(members, id and interval == '' and not due_of_held_back(zset, hash, id)
      and score_when_replaced(zset, id, delay, score, now, max_wait), id)
  end
  earlier_ids[each], is_repeated = id or '', is_repeated or sent
  if not id then
    id, number = time .. string.sub(suffixes, 22 * each - 21, 22 * each), number + 1
    put(fields, id, body)
    put(members, take_turn(rates, times, group, interval, score, stored[8]), id)
    groups[id] = admitted_group(group)
  end
  named[sent and '' or name], keyed[sent and '' or key] = id, id
end
named[''], keyed[''] = nil, nil
refusal = refusal_of_rate(times, interval, now)
if refusal then
  return refusal
end
begin_storing(zset, channel, number, #fields == 0) -- in the order of send_message.lua
require_job_rights(zset, track)
remove_free_groups(zset, groups, #earlier_ids)
forget(records, named, #earlier_ids, hash, stored[7], now, window)
remove_free_keys(unique, keyed, #earlier_ids, zset)
store_turns(rates, times, hash, stored[8], us, #earlier_ids)
change_limits(limits, hash, zset, drops_limits, stored[5], #earlier_ids, fields, limits_record(retries, expires, now))
store_groups(zset, hash, groups, members, now, stored[6])
store_messages(hash, zset, fields, members, number)
remember(records, named, stored[4], now, window)
hold_keys(unique, keyed)
track_sent(zset, track, fields, replace, wait, now)
prolong(records, window, is_repeated and not next(named) and not next(keyed))
return {time, earlier_ids}
