-- Moves messages to another queue with their counters, by their ids or receipts, from one queue or
-- several.
--
-- KEYS[1] to_hash      hash              the destination's attributes, bodies and counters
-- KEYS[2] to_zset      sorted set        the destination's message ids
-- KEYS[3...] queues    hash, sorted set  for each group the two keys of its queue
-- ARGV[1...] messages  strings           the groups, as in fragments/receipts.lua
--
-- returns a digit for each message: 1 if it was moved, 0 if it is not in the queue, 2 if it was
--         received again since
-- errors  QUEUENOTFOUND; then nothing is moved from any queue
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include full.lua
-- @include local_keys.lua
-- @include local_groups.lua
-- @include regrouping.lua
-- @include limits.lua
-- @include dead_letters.lua
-- @include receipts.lua
-- @include held_back.lua
-- @include leaving.lua

local to_hash, to_zset = KEYS[1], KEYS[2]
local queues = KEYS
local messages = ARGV

local stored = queue(to_hash, 'x:limited')
if not stored then
  return queue_not_found(to_hash)
end
allow_removal(to_zset, to_hash) -- these fail on a key of another type, before any change
redis.call('ZADD', to_zset, 'XX', '0', '\0none')
require_local_beside(to_zset, ':x:unbegun')
require_local_limits(to_zset, stored[4])
require_local_groups_of(to_zset, messages)
for at = 3, #queues, 2 do
  if not queue(queues[at]) then
    return queue_not_found(queues[at])
  end
  allow_removal(queues[at + 1], queues[at])
  require_local_beside(queues[at + 1], ':x:unbegun')
end

local now = digits(server_time_ms())
local to = {hash = to_hash, zset = to_zset, has_limits = stored[4]}
local answers, from, moved = {}, 1, {}
for at = 3, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local before, ids, places = #answers - from - 1, nil, nil
  ids, from, places = fitting(hash, zset, messages, from, 1, 'ZSCORE', answers)
  for each, id in ipairs(ids) do
    if redis.call('HEXISTS', hash, id) == 1 and not is_reserved(id) then
      -- A message that was received becomes visible; any other keeps the time when it is due.
      local received = redis.call('HEXISTS', hash, id .. ':rc') == 1
      local due = received and now or due_of_held_back(zset, hash, id) or redis.call('ZSCORE', zset, id)
      transfer(zset, hash, to, id, due)
      note_left(zset, hash, {id})
      moved[#moved + 1] = id
    else
      answers[before + places[each]] = '0'
    end
  end
end
regroup(to_zset, to_hash, groups_of(to_zset, moved), tonumber(now))
return table.concat(answers)
