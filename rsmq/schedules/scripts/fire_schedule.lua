-- Sends the messages of the due ticks of a schedule, and stores its next tick. None is sent while a message with their
-- unique_key is in the queue; of several ticks the first one is sent then.
--
-- KEYS[1] schedules    hash        definitions by name, and their states
-- KEYS[2] due          sorted set  names by the ms of the next attempt; +inf = none
-- KEYS[3] hash         hash        the queue's attributes, bodies and counters
-- KEYS[4] zset         sorted set  the queue's message ids
-- KEYS[5] unique       hash        as in send_with_options.lua
-- KEYS[6] limits       hash        as in send_with_options.lua
-- KEYS[7] rates        sorted set  as in send_with_options.lua
-- ARGV[1] name         string      the schedule
-- ARGV[2] definition   bytes       the definition that the caller has read
-- ARGV[3] tick         integer     ms of the tick that the caller has read
-- ARGV[4] last         integer     ms of the last tick that is fired or skipped
-- ARGV[5] next         integer     ms of the next tick, later than the last one; '' = none
-- ARGV[6] at           integer     ms of the attempt for the next tick
-- ARGV[7] largest      integer     size of the largest body, as in send_message.lua
-- ARGV[8] delay        integer     ms until they are visible, as in send_message.lua
-- ARGV[9] suffixes     string      for each tick the 22 last characters of the id
-- ARGV[10] channel     string      channel for the number of messages; '' = none
-- ARGV[11] options     string      the options, as in send_with_options.lua; '' = none
-- ARGV[12...] bodies   bytes       for each tick the body
--
-- returns {1 or, if the tick is not due any more, 0; the id of an earlier message in place of the new ones or ''; ids}
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG
-- source  none in Node; it writes what npm rsmq 0.12.4 sendMessage writes for each
-- @include time_us.lua
-- @include packed.lua
-- @include optional_sends.lua
-- @include firing.lua

local schedules, due, hash, zset, unique, limits, rates = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local name, definition, tick, last, next, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local largest, delay, suffixes, channel, options = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local bodies = ARGV

local us = server_time_us()
local now = math.floor(us / 1000)
local firing = {
  schedules = schedules, due = due, name = name, definition = definition, tick = tick, last = last, next = next, at = at,
}
local send = {
  hash = hash, zset = zset, records = hash, unique = unique, limits = limits, rates = rates,
  largest = largest, delay = delay, suffixes = suffixes, channel = channel, options = read_options(options),
  arguments = bodies, before = 11, us = us, now = now,
}
local refusal = refusal_of_firing(firing, now) or suffixes ~= '' and plan_send(send)
if refusal then
  return refusal
elseif suffixes == '' then -- the ticks are skipped
  fire(firing, now, '-', function() end)
  return {1, ''}
end
begin_send(send)
fire(firing, now, send.ids[#send.ids], function() finish_send(send) end)
if send.added == 0 then
  return {1, send.ids[1]}
end
local ids = {}
for each, id in ipairs(send.ids) do
  ids[#ids + 1] = send.earlier_ids[each] == '' and id or nil
end
return {1, '', unpack(ids)}
