-- Generated from rsmq/vocabulary/stored.py by scripts/generate-sync. Do not edit.

-- Returns the ends of the keys beside a queue with what messages take along to another queue.
local function moved_keys()
  return {':x:group_of'}
end
