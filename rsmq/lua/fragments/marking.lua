-- The field x:limited, whose values limits.lua has.

-- Adds one of its values to what is stored in it.
local function mark_limited(hash, limited, mark)
  redis.call('HSET', hash, 'x:limited', limited and limited ~= mark and '3' or mark)
end
