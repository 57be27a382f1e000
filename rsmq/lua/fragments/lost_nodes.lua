-- The nodes of flows whose messages have left their queue without an outcome.
-- @include jobs.lua
-- @include time_ms.lua

-- Ends the record of a message that has left its queue, and its node, if it is of a flow and has not ended. It fails without
-- the rights.
local function end_lost_node(zset, id)
  local record = zset .. ':x:job:' .. id
  if redis.call('HGET', record, 'flow') then
    change_job(record, 'expire', server_time_ms(), '', 0)
  end
end
