-- What the rates of a queue follow from, for read_queues.lua.

-- Returns {totals of sends and of receives, time of creation, state of the history, the last 80 bytes of its minutes};
-- false for what there is not.
local function queue_rates(hash, history, options)
  local totals = redis.call('HMGET', hash, 'totalsent', 'totalrecv', 'created')
  local stored = redis.call('HMGET', history, 'state', options.hour)
  local minutes = stored[2] or redis.call('HGET', history, options.hour_before)
  return {totals[1], totals[2], totals[3], stored[1], minutes and string.sub(minutes, -80)}
end
