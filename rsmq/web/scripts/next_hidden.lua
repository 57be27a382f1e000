-- Counts the hidden messages of several queues by state, of many a sample, and returns the next delayed and retrying
-- ones of each queue. Nothing is changed.
--
-- KEYS[1...] queues  hash and sorted set  of each queue: its hash, then its sorted set of ids
-- ARGV[1] sample     integer              hidden messages of a queue to count at most
-- ARGV[2] most       integer              the next hidden messages of a queue to look at
--
-- returns for each queue {the counts as hidden.lua has them, {id, score, receive count or '', error or nil ...}}; nil
--         if it does not exist, or its keys have another type
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include retrying.lua
-- @include held_back.lua
-- @include hidden.lua

local queues = KEYS
local sample, most = ARGV[1], ARGV[2]

local now = server_time_ms()

local function read(hash, zset)
  if not queue(hash) then
    return false
  end
  local states = count_hidden_states(hash, zset, now, tonumber(sample))
  local found = redis.call('ZRANGEBYSCORE', zset, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', '0', most)
  local ids, names = {}, {}
  for at = 1, #found, 2 do
    ids[#ids + 1], names[#names + 1] = found[at], found[at] .. ':rc'
  end
  local counts = #ids > 0 and redis.call('HMGET', hash, unpack(names)) or {}
  local failures, shown = errors_of(zset, hash, ids, counts), {}
  for at, id in ipairs(ids) do
    if failures[at] or not counts[at] and not due_of_held_back(zset, hash, id) then
      for _, value in ipairs({id, found[2 * at], counts[at] or '', failures[at]}) do
        shown[#shown + 1] = value
      end
    end
  end
  return {states, shown}
end

local results = {}
for at = 1, #queues, 2 do
  local has_read, result = pcall(read, queues[at], queues[at + 1])
  results[#results + 1] = has_read and result
end
return results
