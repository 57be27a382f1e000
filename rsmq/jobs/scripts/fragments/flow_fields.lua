-- The fields of a flow of tasks that its status has.

local function fields_of_flow(key)
  return redis.call('HMGET', key, 'state', 'nodes', 'task', 'queues', 'is_list', 'sent_at', 'ended_at', 'declared',
    'pending', 'sent', 'succeeded', 'failed', 'cancelled', 'expired', 'skipped')
end
