-- Bodies with steps (compressed, encrypted) that leave the queue for which they were encoded.

-- Lets no sweep delete the object of a stored body that moves: a sweep may have read the one queue before, and reads the
-- other one after that. A user may lack the right; the argument is what with_origin has.
local function keep_object(steps, zset)
  local name = string.match(steps, '[:,]stored=(%x+)')
  if name then
    redis.pcall('HDEL', string.match(zset, '^(.*):') .. ':x:unused_bodies', name)
  end
end

-- Returns a body that is about to leave a queue: one with steps names the queue, unless it names one already. The arguments
-- are the body, or false, and the sorted set of the queue.
local function with_origin(body, zset)
  if not body or string.sub(body, 1, 12) ~= 'rsmq-body/1:' then
    return body
  end
  local steps, fields, payload = string.match(body, '^([^:]*:[^:]*:)([^:]*)(:.*)$')
  if steps then
    keep_object(steps, zset)
  end
  if not steps or string.sub(fields, 1, 5) == 'from=' then
    return body
  end
  local name = string.gsub(zset, '[^%w._-]', function(character)
    return string.format('%%%02X', string.byte(character))
  end)
  return steps .. 'from=' .. name .. (fields == '' and '' or ';') .. fields .. payload
end
