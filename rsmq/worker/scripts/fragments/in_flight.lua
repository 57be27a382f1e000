-- The messages that a worker has in flight: a hash of message ids, each with receive count and queue as
-- 'count:queue', under '' the token of the worker that has the name now, and under ':orders' and ':running' the orders
-- to it and its report, as in order_worker.lua.
-- @include digits.lua
-- @include local_keys.lua
-- @include variadic.lua

-- The messages that still have this receive count, and their places. Adds to `results` for each message:
-- 1 it has, 0 it is not in the queue, 2 it was received again since.
local function match_receipts(hash, zset, ids, count, results)
  local names, fit, places = {}, {}, {}
  for each = 1, #ids do
    names[each] = ids[each] .. ':rc'
  end
  local counts = values_of('HMGET', hash, names)
  for each = 1, #ids do
    if counts[each] == count then
      results[each], fit[#fit + 1], places[#places + 1] = '1', ids[each], each
    else
      results[each] = redis.call('ZSCORE', zset, ids[each]) and '2' or '0'
    end
  end
  return fit, places
end

-- Changes the scores of those members that exist.
local function update_scores(zset, members)
  for at = 1, #members, 4000 do
    redis.call('ZADD', zset, 'XX', unpack(members, at, math.min(at + 3999, #members)))
  end
end

-- Deletes the in-flight records of messages that equal `value`. `fit` are the messages that still had
-- their receive count: their records can't have been replaced. The record of another message may have
-- been replaced: it may be in flight again, in this worker or in a successor. Then its record stays.
local function delete_in_flight(in_flight, ids, value, fit)
  variadic('HDEL', in_flight, fit)
  if #fit == #ids then
    return
  end
  local stored, deleted = values_of('HMGET', in_flight, ids), {}
  for each = 1, #ids do
    if stored[each] == value then
      deleted[#deleted + 1] = ids[each]
    end
  end
  variadic('HDEL', in_flight, deleted)
end

-- Whether an action also stores how many receives of a message are no attempts.
local function is_no_attempt(action)
  return action == 'unbegun' or action == 'defer'
end

-- Returns the number of values of each message of an action of settle_messages.lua.
local function stride_of(action)
  return action == 'delete' and 1 or (is_no_attempt(action) or action == 'retry') and 3 or 2
end

-- Fails if one of the hashes that change when messages are settled is on another node of a cluster.
local function require_local_records(zset, action, has_records)
  if has_records == '1' then
    require_local_beside(zset, ':x:alone')
  end
  if action == 'retry' then
    require_local_beside(zset, ':x:retrying')
  end
  if is_no_attempt(action) or has_records == '1' and action == 'delete' then
    require_local_beside(zset, ':x:unbegun')
  end
end

-- Subtracts the last run from the quarantine records of messages whose receipts still fit: their worker
-- has stopped, and was not killed. A repetition of the script subtracts nothing more. The script has called
-- require_local_records.
local function withdraw_runs(zset, fit, count)
  local key = zset .. ':x:alone'
  for each = 1, #fit do
    local record = redis.pcall('HGET', key, fit[each])
    local times, last = string.match(type(record) == 'string' and record or '', '^(%d+):(%d+)$')
    if last == count and times == '1' then
      redis.pcall('HDEL', key, fit[each])
    elseif last == count then
      redis.pcall('HSET', key, fit[each], times - 1 .. ':0')
    end
  end
end

-- Deletes the quarantine records of messages whose receipts still fit: the outcome of their last run is
-- known. If the messages are deleted, it also deletes the numbers of their receives that began no call.
-- A user may lack the right; then the records expire. The script has called require_local_records.
local function delete_records(zset, fit, are_deleted)
  pcall(variadic, 'HDEL', zset .. ':x:alone', fit)
  if are_deleted then
    pcall(variadic, 'HDEL', zset .. ':x:unbegun', fit)
  end
end

-- Changes these records after an action of settle_messages.lua.
local function update_records(zset, fit, action, count)
  if action == 'release' or action == 'unbegun' then
    withdraw_runs(zset, fit, count)
  else
    delete_records(zset, fit, action == 'delete')
  end
end

-- Records messages that are delivered, in the form of due_many.lua.
local function record_in_flight(in_flight, due, name)
  local members, once = {}, '1:' .. name
  for each = 1, due.number do
    members[2 * each - 1], members[2 * each] = due.told[2 * each - 1], once
  end
  for each = 1, #due.again, 3 do
    members[2 * due.again[each]] = digits(due.again[each + 1]) .. ':' .. name
  end
  variadic('HSET', in_flight, members)
end
