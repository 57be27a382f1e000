-- Generated from rsmq/vocabulary/stored.py by scripts/generate-sync. Do not edit.

-- Returns the ends of the keys beside a queue with what messages bring along that are imported, in the order of MESSAGE_RECORDS.
local function carried_keys()
  return {':x:group_of', ':x:limits'}
end
