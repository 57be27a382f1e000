-- Returns the reasons of dead letters from a position on, without their bodies; one step of a walk. Nothing is changed.
--
-- KEYS[1] hash  hash        the queue's attributes, bodies and counters
-- KEYS[2] zset  sorted set  the queue's message ids
-- ARGV[1] from  score       the position: the score of the last id that was looked at, '' = the first step
-- ARGV[2] last  string      the position: that id
-- ARGV[3] most  integer     how many ids to look at, at most 1,000
--
-- returns {{id ...}, {score ...}, {the reason of each or nil}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include queue.lua
-- @include rank.lua
-- @include reasons.lua

local hash, zset = KEYS[1], KEYS[2]
local from, last, most = ARGV[1], ARGV[2], ARGV[3]

if not queue(hash) then
  return queue_not_found(hash)
end
local rank = from ~= '' and rank_behind(zset, from, last) or 0
local found = redis.call('ZRANGE', zset, rank, rank + tonumber(most) - 1, 'WITHSCORES')
local ids, scores = {}, {}
for at = 1, #found, 2 do
  ids[#ids + 1], scores[#scores + 1] = found[at], found[at + 1]
end
return {ids, scores, records_of(zset, ids, ':x:reasons')}
