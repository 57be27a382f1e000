-- What was sent under a name that its sender chose. A hash of its own keeps the names, each with
-- 'ms when it ends:the queue's created:message id', and under '' where the last clearing stopped.

-- The id of the message sent under this name within its window, or nothing; a record of a queue
-- that was since deleted and made again does not count.
local function sent_before(records, name, created, now)
  local record = redis.call('HGET', records, name)
  local ends, of, id = string.match(record or '', '^(%d+):(.-):(.+)$')
  if ends and tonumber(ends) > now and of == (created or '') then
    return id
  end
end

local function remember(records, name, created, ends, id)
  redis.call('HSET', records, name, digits(ends) .. ':' .. (created or '') .. ':' .. id)
end

-- Looks at twice as many records as will be added, removes those that have ended, and keeps the rest
-- for the window at least. All that a user may lack the right for comes before what is changed.
local function forget(records, now, added, window)
  local scan = redis.call('HSCAN', records, redis.call('HGET', records, '') or '0',
    'COUNT', 2 * added + 10)
  local lives = math.max(redis.call('PTTL', records), window)
  redis.call('PEXPIRE', records, digits(lives))
  redis.call('HDEL', records, '')
  for at = 1, #scan[2], 2 do
    local ends = string.match(scan[2][at + 1], '^(%d+):')
    if ends and tonumber(ends) <= now then
      redis.call('HDEL', records, scan[2][at])
    end
  end
  redis.call('HSET', records, '', scan[1])
  redis.call('PEXPIRE', records, digits(lives))
end
