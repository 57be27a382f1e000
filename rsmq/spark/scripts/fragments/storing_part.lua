-- The receipts of a new part of a batch, as leases.lua has them.
-- @include lifetime.lua

-- Stores the receipts of the messages that are due as a part of a batch, of which `sizes` has the record; it gets the size of the
-- part. `follows` is as in rows.lua. Returns the bytes of the bodies.
local function store_part(leases, batch, part, sizes, due, now, lifetime, follows)
  local ids, size = {}, 0
  for each = 1, due.number do
    ids[each], size = due.told[2 * each - 1], size + #due.told[2 * each]
  end
  sizes[1], sizes[#sizes + 1] = now + lifetime, due.number
  redis.call('HSET', leases, batch .. ':' .. part, cmsgpack.pack({now, ids, due.again, follows}),
    batch, cmsgpack.pack(sizes))
  keep_for(leases, lifetime)
  return size
end
