-- Generated from rsmq/vocabulary/queues.py by scripts/generate-sync. Do not edit.

-- Returns the fields of a queue's attributes.
local function attribute_fields()
  return {
    'vt', 'delay', 'maxsize', 'created', 'modified', 'totalsent', 'totalrecv', 'x:dlq', 'x:max', 'x:paused',
    'x:keep', 'x:expired', 'x:throttle',
  }
end

-- Returns these, and the others that stay when the queue is purged.
local function fields_that_stay()
  return {
    'vt', 'delay', 'maxsize', 'created', 'modified', 'totalsent', 'totalrecv', 'x:dlq', 'x:max', 'x:paused',
    'x:keep', 'x:expired', 'x:throttle', 'x:resumed', 'x:divided', 'x:sqs', 'createdby',
  }
end
