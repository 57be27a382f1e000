-- Bodies with steps (compressed, encrypted) that leave the queue for which they were encoded.

-- Returns a body that is about to leave a queue: one with steps names the queue, unless it names one already. The arguments
-- are the body, or false, and the sorted set of the queue.
local function with_origin(body, zset)
  if not body or string.sub(body, 1, 12) ~= 'rsmq-body/1:' then
    return body
  end
  local steps, fields, payload = string.match(body, '^([^:]*:[^:]*:)([^:]*)(:.*)$')
  if not steps or string.sub(fields, 1, 5) == 'from=' then
    return body
  end
  local name = string.gsub(zset, '[^%w._-]', function(character)
    return string.format('%%%02X', string.byte(character))
  end)
  return steps .. 'from=' .. name .. (fields == '' and '' or ';') .. fields .. payload
end
