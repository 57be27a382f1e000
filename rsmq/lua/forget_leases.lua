-- Forgets batches of leases that nobody has kept for as long as they were to be kept: those of queries
-- that will not come back. Their messages have come back to the queue long before.
--
-- KEYS[1] leases  hash  receipts by lease, batch and part; of a batch ms when it is forgotten, and the
--                       sizes of its parts; of a lease its holder and until when
--
-- returns how many fields were removed
-- errors  none
-- source  none in Node
-- @include time_ms.lua

local leases = KEYS[1]

local now, removed = server_time_ms(), 0
for _, name in ipairs(redis.call('HKEYS', leases)) do
  local _, colons = string.gsub(name, ':', '')
  if colons < 2 then
    local kept = cmsgpack.unpack(redis.call('HGET', leases, name))
    if (colons == 0 and kept[2] or kept[1]) < now then
      removed = removed + redis.call('HDEL', leases, name)
      for part = 0, colons == 1 and #kept - 2 or -1 do
        removed = removed + redis.call('HDEL', leases, name .. ':' .. part)
      end
    end
  end
end
return removed
