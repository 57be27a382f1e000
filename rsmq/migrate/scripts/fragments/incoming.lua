-- Messages that come from another system. A row is: digest, id, body, score, receive count, time
-- of the first receive, and unique key or group; those from id to time are as in restoring.lua. The digest
-- identifies the message at its source. The message gets the unique key, unless it is '' or another
-- message has it. A text that begins with a zero byte has the records that it gets instead, as split_carried
-- reads them. A row with an empty id has no message to store: the element is only removed from
-- the source.
--
-- The watermark of a source is the score and the id of its last message that was added in the order of the
-- source: the next messages get later ones. It is a field of the hash `copied`. A script that adds messages
-- stores the watermark behind them, and only if it is still the one that the run has read.
-- @include carried.lua
-- @include copies.lua
-- @include queue.lua
-- @include restoring.lua
-- @include time_ms.lua
-- @include unique.lua

-- Returns the reply of a script that may not move `number` messages: because the queue is missing, because
-- another run has moved messages since the watermark was read, or because another run has the lock.
-- Returns nil if it may.
local function check_destination(to, hash, copied, field, before, after, number)
  if to == 'aside' then
    local lock = redis.call('GET', hash)
    return lock and lock ~= before and redis.error_reply('RUNREPLACED ' .. hash)
  end
  if not queue(hash) then
    return queue_not_found(hash)
  end
  if field ~= '' then
    local stored = is_of_queue(copied, hash) and redis.call('HGET', copied, field) or ''
    -- It is `after` already if an earlier attempt of this call has run.
    return stored ~= before and stored ~= after and string.rep('4', number)
  end
end

-- Adds rows to a queue. Returns how many were added.
local function add_rows(hash, zset, rows)
  local values = {}
  for at = 1, #rows, 7 do
    if rows[at + 1] ~= '' then
      for place = 1, 5 do
        values[#values + 1] = rows[at + place]
      end
    end
  end
  return restore(hash, zset, values, 1, digits(server_time_ms()))
end

-- Sets rows aside in a hash, from which they are later added to a queue on another server. The field is
-- the id; the value is score, count, time, digest and body, separated by one space each. A unique key follows
-- the digest and a colon, with %20 and %25 for spaces and percent signs. The field '' is the target queue of
-- them all.
local function set_aside(aside, rows, target)
  local fields = {}
  for at = 1, #rows, 7 do
    if rows[at + 1] ~= '' then
      local key = string.gsub(rows[at + 6], '[ %%]', {[' '] = '%20', ['%'] = '%25'})
      local digest = rows[at] .. (key ~= '' and ':' .. key or '')
      fields[#fields + 1] = rows[at + 1]
      fields[#fields + 1] = table.concat(
        {rows[at + 3], rows[at + 4], rows[at + 5], digest, rows[at + 2]}, ' '
      )
    end
  end
  if #fields > 0 then
    fields[#fields + 1] = ''
    fields[#fields + 1] = target
    variadic('HSET', aside, fields)
  end
end

-- Appends the row that begins at this argument to `rows`, unless its message was copied before. Returns
-- the digit for its message: 1 appended, 2 copied before.
local function append_unless_copied(rows, arguments, at, has_copies, copied)
  if has_copies and arguments[at] ~= '' and redis.call('HEXISTS', copied, arguments[at]) == 1 then
    return '2'
  end
  for place = 0, 6 do
    rows[#rows + 1] = arguments[at + place]
  end
  return '1'
end

-- Returns whether a message without a digest, which only its id identifies, is already in the queue
-- or aside.
local function is_at_target(to, zset, digest, id)
  if digest ~= '' or id == '' then
    return false
  end
  if to == 'aside' then
    return redis.call('HEXISTS', zset, id) == 1
  end
  return redis.call('ZSCORE', zset, id) and true
end

-- Adds rows to the queue and stores the watermark behind them, or sets them aside. Returns how many were
-- added to the queue.
local function store(to, hash, zset, copied, unique, rows, field, after, lifetime)
  if to == 'aside' then
    set_aside(zset, rows, after)
    return 0
  end
  local keyed, carried = {}, {}
  for at = 1, #rows, 7 do
    if not split_carried(carried, zset, rows[at + 1], rows[at + 6]) then
      claim_key(keyed, unique, rows[at + 6], rows[at + 1], hash, zset)
    end
  end
  prepare_carried(zset, hash, carried)
  remove_free_keys(unique, keyed, #rows / 7, zset)
  store_watermark(copied, hash, field, after, lifetime)
  local added = add_rows(hash, zset, rows)
  hold_keys(unique, keyed)
  store_carried(zset, hash, carried, server_time_ms())
  return added
end

-- Publishes the number of messages in the queue. Called last: if the user may not publish, the messages
-- have been moved already.
local function publish_count(channel, zset, added)
  if channel ~= '' and added > 0 then
    redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
  end
end
