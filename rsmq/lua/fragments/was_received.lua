-- Whether a message was received: no operation lowers a receive count.

local function was_received(hash, id)
  return (redis.call('HGET', hash, id .. ':rc') or '0') ~= '0'
end
