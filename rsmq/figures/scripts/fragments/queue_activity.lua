-- What was sent and received in a queue, for read_queues.lua.

-- Returns {totals of sends and of receives, time of creation, state of the history, its minutes in the hour before, those
-- in this hour}; false for what there is not.
local function queue_activity(hash, history, options)
  local totals = redis.call('HMGET', hash, 'totalsent', 'totalrecv', 'created')
  local chunks = redis.call('HMGET', history, 'state', options.hour_before, options.hour)
  return {totals[1], totals[2], totals[3], chunks[1], chunks[2], chunks[3]}
end
