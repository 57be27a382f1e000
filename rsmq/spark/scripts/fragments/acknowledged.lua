-- The last acknowledged batch of each query, as in highest.lua. The text beside it is JSON of what its offset counts in
-- each queue, or ''.
-- @include highest.lua

-- Stores the last acknowledged batch of a query, unless a later one is stored. Without counts, the same batch keeps
-- those that it has.
local function note_acknowledged(key, query, number, lifetime, new_holder, counts)
  local last, _, _, stored = highest_of(key, query)
  if (counts or '') == '' and last == number then
    counts = stored
  end
  raise_to(key, query, number, lifetime, new_holder, counts)
end
