-- Sends with a dedup_id. A separate hash maps each dedup_id to 'ms of its end:the queue's
-- created:message id', and '' to the cursor of the last clean-up. Without the field x:named of the queue, the hash is that
-- of an earlier queue with this name, which another client has deleted; its created may be the same.
-- @include digits.lua

-- Returns the id of the message that was sent with this dedup_id within its window, or nothing. A
-- record of a queue that was deleted and created again since is ignored. `is_named` is the field x:named as stored.
local function sent_before(records, name, created, is_named, now)
  local record = is_named and redis.call('HGET', records, name)
  local ends, of, id = string.match(record or '', '^(%d+):(.-):(.+)$')
  if ends and tonumber(ends) > now and of == (created or '') then
    return id
  end
end

-- Stores the ids of messages by dedup_id.
local function remember(records, names, created, now, window)
  for name, id in pairs(names) do
    redis.call('HSET', records, name, digits(now + window) .. ':' .. (created or '') .. ':' .. id)
  end
end

-- Lets the records live for at least the window. If nothing else changes, a WAIT on this connection has this change to
-- wait for: without one it would not wait for the replicas.
local function prolong(records, window, is_needed)
  if is_needed then
    redis.call('PEXPIRE', records, digits(math.max(redis.call('PTTL', records), tonumber(window))))
  end
end

-- Before names are stored, reads twice as many records as the batch has messages, removes those that have ended, and
-- keeps the rest for at least the window. Commands for which the user may lack the right come before any change. Without
-- x:named, removes all, and stores it.
local function forget(records, names, messages, hash, is_named, now, window)
  if not next(names) then
    return
  end
  local scan = redis.call('HSCAN', records, redis.call('HGET', records, '') or '0',
    'COUNT', 2 * messages + 10)
  local lives = math.max(redis.call('PTTL', records), tonumber(window))
  redis.call('PEXPIRE', records, digits(lives))
  redis.call('HDEL', records, '')
  if not is_named then
    if type(redis.pcall('UNLINK', records)) == 'table' then -- the user may lack the right
      redis.call('PEXPIRE', records, '0')
    end
    redis.call('HSET', hash, 'x:named', '1')
    scan = {'0', {}}
  end
  for at = 1, #scan[2], 2 do
    local ends = string.match(scan[2][at + 1], '^(%d+):')
    if ends and tonumber(ends) <= now then
      redis.call('HDEL', records, scan[2][at])
    end
  end
  redis.call('HSET', records, '', scan[1])
  redis.call('PEXPIRE', records, digits(lives))
end
