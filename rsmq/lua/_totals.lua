-- Totals and counts, which must be integers to be raised.

-- One that can't be raised fails here, before anything is changed.
local function require_integer(hash, field, stored)
  if stored and stored ~= '0' and (#stored > 15 or not string.find(stored, '^%-?[1-9]%d*$')) then
    redis.call('HINCRBY', hash, field, 20000)
    redis.call('HINCRBY', hash, field, -20000)
  end
end
