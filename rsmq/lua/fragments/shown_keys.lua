-- Generated from rsmq/vocabulary/stored.py by scripts/generate-sync. Do not edit.

-- Returns the ends of the keys beside a queue with what is returned with a message, its group aside.
local function shown_keys()
  return {':x:reasons'}
end
