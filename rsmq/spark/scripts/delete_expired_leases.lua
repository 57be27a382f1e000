-- Deletes batches whose lifetime is over, and leases whose holder does not renew them any more: their queries
-- have ended. Consumers could receive the messages again since their visibility timeouts ended.
--
-- KEYS[1] leases  hash  receipts by stream, batch and part; for a batch the ms when it is deleted, and
--                       the sizes of its parts; for a stream its holder, and the ms until when
--
-- returns the number of deleted fields
-- errors  none
-- source  none in Node
-- @include time_ms.lua

local leases = KEYS[1]

local now, removed = server_time_ms(), 0
for _, name in ipairs(redis.call('HKEYS', leases)) do
  local _, colons = string.gsub(name, ':', '')
  if colons < 2 then
    local stored = cmsgpack.unpack(redis.call('HGET', leases, name))
    local until_ms = colons == 0 and stored[2] or stored[1]
    if type(until_ms) == 'number' and until_ms < now then -- else a newer version has stored it
      removed = removed + redis.call('HDEL', leases, name)
      for part = 0, colons == 1 and #stored - 2 or -1 do
        removed = removed + redis.call('HDEL', leases, name .. ':' .. part)
      end
    end
  end
end
return removed
