-- The records of tracked messages that a worker receives and settles. A user may lack the right; then there are none.
-- @include digits.lua
-- @include due.lua
-- @include jobs.lua
-- @include local_keys.lua

-- Returns by the number of each tracked group of settle_messages.lua the place of its event; nothing if there is none.
-- The groups begin at an index of the arguments. It fails if records are on another node of a cluster.
local function tracked_groups(queues, arguments, from)
  local places = arguments[from] and {}
  while arguments[from] do
    local group = tonumber(arguments[from])
    require_local_beside(queues[2 * group + 1], ':x:job:')
    places[group] = from + 2
    from = from + 4 + 2 * arguments[from + 1]
  end
  return places
end

-- Returns which places of receive_for_worker.lua have tracked queues, and under `worker` the name of the worker. The
-- arguments for this begin at an index. It fails if records are on another node of a cluster.
local function tracked_queues(queues, requests, from)
  local tracked = {worker = requests[from]}
  for at = from + 1, tracked.worker and #requests or 0 do
    local place = tonumber(requests[at])
    require_local_beside(queues[2 * place + 1], ':x:job:')
    tracked[place] = true
  end
  return tracked
end

-- Returns whether a message is to be cancelled. A user may lack the right; then it is not.
local function is_to_be_cancelled(zset, id)
  return type(redis.pcall('HGET', zset .. ':x:job:' .. id, 'cancel')) == 'string'
end

-- Writes the records of messages whose receipts are valid, unless `at` is nil. From there on, the arguments have the
-- event, the ms for which the record of an ended job lives, and for each message of the group its result or error and
-- its progress, each may be ''. `places` are the places of the messages in the group, `count` is their receive count.
-- A message that stays in the queue and is to be cancelled is removed, or is answered by 3 for the event progress.
local function settle_jobs(hash, zset, fit, places, count, arguments, at, now, results)
  local event = at and arguments[at]
  for each = 1, event and #fit or 0 do
    local id, value_at = fit[each], at + 2 * places[each]
    local key, value, progress = zset .. ':x:job:' .. id, arguments[value_at], arguments[value_at + 1]
    if event == 'progress' then
      if is_to_be_cancelled(zset, id) then
        results[places[each]] = '3'
      end
      if progress ~= '' then
        pcall(change_job, key, event, now, '', 0, fields_of_progress(progress))
      end
    elseif event == 'succeed' then
      pcall(change_job, key, event, now, arguments[at + 1], 0, 'result', value, fields_of_progress(progress))
    else
      local wait = event == 'fail' and 0 or math.max((redis.call('ZSCORE', zset, id) or now) - now, 0)
      local field = value == '' and 'receives' or 'error'
      local _, state = pcall(change_job, key, event, now, arguments[at + 1], wait, 'receives', count,
        field, value == '' and count or value, fields_of_progress(progress))
      if state == 'cancelled' then
        remove_message(zset, hash, id)
        note_left(zset, hash, {id})
      end
    end
  end
end

-- Does so if `is_now`: records of messages that are deleted are written before that, since the node of a flow expires when
-- its message leaves the queue without an outcome.
local function settle_jobs_if(is_now, ...)
  if is_now then
    settle_jobs(...)
  end
end

-- Removes those messages that are to be cancelled from their queue, and from what is to be delivered, in the form of
-- due_many.lua. Only a message that was received before can be one.
local function remove_cancelled(tracked, place, hash, zset, due, now)
  if not tracked[place] then
    return
  end
  local told, again, removed, number = {}, {}, {}, 0
  for each = 1, #due.again, 3 do
    local id = due.told[2 * due.again[each] - 1]
    if is_to_be_cancelled(zset, id) then
      local is_written = pcall(change_job, zset .. ':x:job:' .. id, 'cancel', now, '', 0)
      removed[due.again[each]] = is_written and remove_message(zset, hash, id)
      note_left(zset, hash, is_written and {id} or {})
    end
  end
  if not next(removed) then
    return
  end
  local places = {}
  for each = 1, due.number do
    if not removed[each] then
      number = number + 1
      told[2 * number - 1], told[2 * number], places[each] = due.told[2 * each - 1], due.told[2 * each], number
    end
  end
  for each = 1, #due.again, 3 do
    local at = places[due.again[each]]
    if at then
      again[#again + 1], again[#again + 2], again[#again + 3] = at, due.again[each + 1], due.again[each + 2]
    end
  end
  due.told, due.again, due.number = told, again, number
end

-- Writes the records of messages that are delivered, in the form of due_many.lua, if the queue of their place is tracked.
-- `unbegun` has for each message that was received before how many of its receives were no attempts. `hidden` is the ms
-- for which they are hidden.
local function begin_jobs(tracked, place, zset, due, unbegun, now, hidden)
  if not tracked[place] then
    return
  end
  local counts, attempts = {}, {}
  for each = 1, #due.again, 3 do
    local number, count = due.again[each], due.again[each + 1]
    counts[number], attempts[number] = count, math.max(count - unbegun[(each + 2) / 3], 1)
  end
  for each = 1, due.number do
    pcall(change_job, zset .. ':x:job:' .. due.told[2 * each - 1], 'begin', now, '', hidden, 'attempt',
      digits(attempts[each] or 1), 'receives', digits(counts[each] or 1), 'worker', tracked.worker, 'begun', digits(now))
  end
end
