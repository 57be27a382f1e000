-- Returns the messages from a position on that may fit a filter; one step of a search. Nothing is changed.
--
-- Only what is cheap is compared here: ids, receive counts, times and texts in bodies. A message that is returned
-- may not fit; one that is not returned does not.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] from      score       the position: the score of the last id that was looked at, '' = the first step
-- ARGV[2] last      string      the position: that id
-- ARGV[3] rank      integer     of the first step: the rank of the first id, if the state is not a hidden one
-- ARGV[4] state     string      only those that are visible, in_flight, retrying, delayed or held_back; '' = all
-- ARGV[5] skip      integer     how many messages of a hidden state to skip
-- ARGV[6] count     integer     how many to return at most
-- ARGV[7] most      integer     how many ids to look at, at most 1,000
-- ARGV[8] room      integer     bytes of bodies to read, except for the first body
-- ARGV[9] cut       integer     bytes of each body to return; '' = all
-- ARGV[10...] terms strings     field, operator and value of each term: id and a prefix, body and a text, rc and a
--         number, sent and microseconds
--
-- returns {the score of the last id or nil at the end of the queue, that id, how many are still to be skipped, now
--         ms, vt as stored, how many ids were looked at, {id, body, its bytes, receive count or '', first-received
--         ms or '', score, id ...}, as in fragments/shown.lua, {the error of the last attempt of each that waits
--         for a retry or nil}}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include variadic.lua
-- @include rank.lua
-- @include shown.lua
-- @include retrying.lua
-- @include terms.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local from, last, rank, state, skip = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local count, most, room, cut = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local terms = ARGV
rank, skip, count, most, room = tonumber(rank), tonumber(skip), tonumber(count), tonumber(most), tonumber(room)
cut = tonumber(cut)

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local now_ms = server_time_ms()
local now = digits(now_ms)
local hidden = state ~= '' and state ~= 'visible'
if from ~= '' then
  rank = rank_behind(zset, from, last)
elseif hidden then
  rank = redis.call('ZCOUNT', zset, '-inf', now)
end
local to = rank + most
if state == 'visible' then
  to = math.min(to, redis.call('ZCOUNT', zset, '-inf', now))
end
local found = to > rank and redis.call('ZRANGE', zset, rank, to - 1, 'WITHSCORES') or {}
local names, found_ids, hidden_counts = {}, {}, {}
for at = 1, #found, 2 do
  names[#names + 1], found_ids[#names + 1] = found[at] .. ':rc', found[at]
end
local counts = values_of('HMGET', hash, names)
for at = 1, #names do
  hidden_counts[at] = tonumber(found[2 * at]) > now_ms and counts[at]
end
local failures = errors_of(zset, hash, found_ids, hidden_counts)
add_groups(zset, hash, found_ids, failures)

local messages, ids, errors, passed = {}, {}, {}, 0
while passed < #names and #ids < count and (room > 0 or passed == 0) do
  passed = passed + 1
  local id, score, times = found_ids[passed], found[2 * passed], counts[passed]
  local its = hidden_state(failures[passed], times)
  its = tonumber(score) > now_ms and its or 'visible'
  local fits = (state == '' or state == its) and not is_reserved(id)
  if fits and hidden and skip > 0 then
    skip = skip - (redis.call('HMGET', hash, id)[1] and 1 or 0)
  elseif fits and may_fit(terms, 10, id, times, now_ms) then
    local body, first = unpack(redis.call('HMGET', hash, id, id .. ':fr'))
    room = room - #(body or '')
    if body and has_texts(terms, 10, body) then
      ids[#ids + 1], errors[#ids + 1] = id, failures[passed]
      local shown = cut and string.sub(body, 1, cut) or body
      for _, value in ipairs({id, shown, #body, times or '', first or '', score}) do
        messages[#messages + 1] = value
      end
    end
  end
end
local is_end = passed == #names and #names < most
local score = not is_end and found[2 * passed]
return {score, found_ids[passed] or '', skip, now, stored[1], passed, messages, shown_of(zset, ids), errors}
