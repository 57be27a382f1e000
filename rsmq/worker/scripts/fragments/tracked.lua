-- The records of tracked messages that a worker receives and settles. A user may lack the right; then there are none.
-- @include digits.lua
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
    from = from + 4 + arguments[from + 1]
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

-- Writes the records of messages whose receipts are valid, unless `at` is nil. From there on, the arguments have the
-- event, the ms for which the record of an ended job lives, and for each message of the group its result or error.
-- `places` are the places of the messages in the group, `count` is their receive count.
local function settle_jobs(zset, fit, places, count, arguments, at, now)
  if not at then
    return
  end
  local event, lifetime = arguments[at], arguments[at + 1]
  for each, id in ipairs(fit) do
    local key, value = zset .. ':x:job:' .. id, arguments[at + 1 + places[each]]
    if event == 'succeed' or event == 'fail' then
      local field = event == 'succeed' and 'result' or 'error'
      pcall(change_job, key, event, lifetime, 0, 'ended', digits(now), field, value)
    else
      local wait = math.max((redis.call('ZSCORE', zset, id) or now) - now, 0)
      if event == 'retry' then
        pcall(change_job, key, event, '', wait, 'receives', count, 'error', value)
      else
        pcall(change_job, key, event, '', wait, 'receives', count)
      end
    end
  end
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
    pcall(change_job, zset .. ':x:job:' .. due.told[2 * each - 1], 'begin', '', hidden, 'attempt',
      digits(attempts[each] or 1), 'receives', digits(counts[each] or 1), 'worker', tracked.worker, 'begun', digits(now))
  end
end
