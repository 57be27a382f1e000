-- Generated from rsmq/vocabulary/queues.py by scripts/generate-sync. Do not edit.

-- Returns the fields of a queue's attributes.
local function attribute_fields()
  return {
    'vt', 'delay', 'maxsize', 'created', 'modified', 'totalsent', 'totalrecv', 'x:dlq', 'x:max', 'x:paused',
    'x:keep', 'x:expired', 'x:throttle',
  }
end
