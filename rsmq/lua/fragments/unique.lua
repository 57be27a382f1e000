-- Sends with a unique_key. A hash beside the queue maps each unique_key to the id of the message that has it. The key
-- is free once that message has left the queue, whichever client removed it.
-- @include digits.lua

-- Returns the id of the message that has a key, or nothing if the key is free. A body without an id, which no client
-- can receive, does not keep its key.
local function holder_of(unique, key, hash, zset)
  local id = redis.call('HGET', unique, key)
  if id and redis.call('ZSCORE', zset, id) and redis.call('HEXISTS', hash, id) == 1 then
    return id
  end
end

-- Returns the new score of a message that is replaced, or nothing if it keeps its score: without a delay, and if it is
-- visible and would remain so. `score` is that of a message sent now; `max_wait` is as in send_with_options.lua, and
-- counts from the first send, whose time is in the id.
local function score_when_replaced(zset, id, delay, score, now, max_wait)
  local earlier = delay ~= '' and redis.call('ZSCORE', zset, id)
  if not earlier then -- also if it is new in this batch
    return
  end
  local due = tonumber(score)
  if max_wait ~= '' then
    due = math.min(due, math.floor(tonumber(string.sub(id, 1, 10), 36) / 1000) + max_wait)
  end
  if delay == 'front' or due > now or tonumber(earlier) > now then
    return digits(due)
  end
end

-- Adds a key to those of messages that are about to be added, unless another message has it; '' = no key.
local function claim_key(keyed, unique, key, id, hash, zset)
  if key ~= '' and id ~= '' and not keyed[key] and not holder_of(unique, key, hash, zset) then
    keyed[key] = id
  end
end

-- Stores the id of each key. An id that is stored already is written again: a WAIT on this connection then has a
-- change to wait for.
local function hold_keys(unique, keys)
  for key, id in pairs(keys) do
    redis.call('HSET', unique, key, id)
  end
end

-- Before keys are stored, removes free ones among others: it reads twice as many as the batch has messages, chosen at
-- random. So keys whose messages have left the queue remain a small part of all; a time to live could end before a
-- message does. The first command fails, before any change, if the user lacks the right.
local function remove_free_keys(unique, keys, messages, zset)
  if not next(keys) then
    return
  end
  redis.call('HDEL', unique, '') -- Redis then allows the rest if memory is full
  local found = redis.call('HRANDFIELD', unique, 2 * messages + 10, 'WITHVALUES') or {}
  for at = 1, #found, 2 do
    if not redis.call('ZSCORE', zset, found[at + 1]) then
      redis.call('HDEL', unique, found[at])
    end
  end
end
