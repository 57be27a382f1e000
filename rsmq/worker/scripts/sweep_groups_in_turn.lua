-- Makes the next step of the sweep of a queue that has groups, if it is due. All workers together make one sweep after the
-- other: field x:groups has the ms of the next step, and the position. A worker continues the sweep that it has begun;
-- others do after 10 s without a step. The next sweep begins 45 s after the end of one.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- KEYS[3] admitted   sorted set  the admitted messages, as in fragments/groups.lua
-- KEYS[4] held_back  sorted set  the messages that are held back
-- KEYS[5] records    hash        the group of each message
-- ARGV[1] from       string      the position that the caller's last step returned; '' = none
--
-- returns {ms until the caller asks again, position or '', number of messages that were admitted}; nil if the queue has
--         no groups
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include sweeping_groups.lua

local hash, zset, admitted, held_back, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local from = ARGV[1]

local stored = queue(hash, 'x:groups')
if not stored then
  return queue_not_found(hash)
elseif not stored[4] then
  return false
end
local now = server_time_ms()
local next_at, position = string.match(stored[4], '^(%d+) (.*)$')
local wait = tonumber(next_at or '0') - now
-- A wait of more than a minute is from before the clock was set back.
if wait > 0 and wait <= 60000 and (from == '' or from ~= position) then
  return {wait, '', 0}
end
allow_sweep(zset, admitted, held_back, records)
local number
-- Scores are read in one of eight minutes: they are a day ahead, so that is often enough.
local is_full = math.floor(now / 60000) % 8 == 0
position, number = sweep_step(zset, hash, admitted, held_back, records, position or '', now, is_full)
redis.call('HSET', hash, 'x:groups', digits(now + (position and 10000 or 45000)) .. ' ' .. (position or ''))
-- The steps of 300,000 messages then take about 5 s.
local pause = position and math.max(4, math.floor(5000 * 500 / redis.call('ZCARD', held_back))) or 45000
return {pause, position or '', number}
