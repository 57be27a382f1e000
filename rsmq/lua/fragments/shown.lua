-- The values beside a queue that are returned with its messages.
-- @include reasons.lua
-- @include shown_keys.lua

-- Returns a list for each of the shown keys: the records of messages as stored, in order, those of the reasons first. A list
-- is empty if the user lacks the right to its key.
local function shown_of(zset, ids)
  local shown = {}
  for at, name in ipairs(shown_keys()) do
    shown[at] = records_of(zset, ids, name)
  end
  return shown
end
