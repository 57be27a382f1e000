-- Checks that queues can be received from, before anything is received from any of them.
--
-- KEYS[1...] hashes  hashes   the queues' attributes, bodies and counters
-- ARGV[1] vt         integer  as in receive_messages.lua; '' = each queue's vt, which is checked too
--
-- returns 1
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  none in Node
-- @include queue.lua
-- @include attributes.lua

local hashes = KEYS
local vt = ARGV[1]

for at = 1, #hashes do
  local stored = queue(hashes[at])
  if not stored then
    return queue_not_found(hashes[at])
  end
  if vt == '' and not stored_ms(stored[1]) then
    return no_number('vt', stored[1])
  end
end
return 1
