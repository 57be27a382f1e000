-- Removes expired batches of leases: those of queries that no longer run. Their messages have become
-- visible long before.
--
-- KEYS[1] leases  hash  receipts by lease, batch and part; by batch the ms when it
--                       expires, and the sizes of its parts; by lease its holder and its end
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
