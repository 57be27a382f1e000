-- Adds messages with options to a queue, in order. A message is not added if one with its dedup_id was sent within
-- the window. Nor is it added if one with its unique_key is in the queue; that one may be replaced.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] records    hash        sends by dedup_id; the queue's hash again = without dedup_ids
-- KEYS[4] unique     hash        message ids by unique_key; the queue's hash again = without unique_keys
-- KEYS[5] limits     hash        limits by message id; the queue's hash again = without limits
-- KEYS[6] rates      sorted set  times by key, as in fragments/rates.lua; the queue's hash again = without a rate
-- ARGV[1] largest    integer     size of the largest body, as in send_message.lua
-- ARGV[2] delay      integer     ms until they are visible, as in send_message.lua
-- ARGV[3] suffixes   string      the 22 random characters of each id, sorted
-- ARGV[4] channel    string      channel for the number of messages; '' = none
-- ARGV[5] options    string      the options, as in fragments/packed.lua: those of fragments/optional_sends.lua
-- ARGV[6...] bodies  bytes       the messages
--
-- returns {first part of the ids, for each message the id of the earlier message in its place, else ''}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include packed.lua
-- @include optional_sends.lua

local hash, zset, records, unique, limits, rates = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local largest, delay, suffixes, channel, options = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local bodies = ARGV

local us = server_time_us()
local send = {
  hash = hash, zset = zset, records = records, unique = unique, limits = limits, rates = rates,
  largest = largest, delay = delay, suffixes = suffixes, channel = channel, options = read_options(options),
  arguments = bodies, before = 5, us = us, now = math.floor(us / 1000),
}
local refusal = plan_send(send)
if refusal then
  return refusal
end
begin_send(send)
finish_send(send)
return {send.time, send.earlier_ids}
