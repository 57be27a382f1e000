-- The check of the nodes of a flow, for those whose messages have left their queues without their records.
-- @include jobs.lua
-- @include job_state.lua
-- @include flows.lua

-- Returns the state of a node and the id of its message; the state is that of its job while that has not ended.
local function state_of_node(flow, number, now)
  local state, id = string.match(redis.call('HGET', flow.key, number .. ':s') or 'pending', '^(%a+) ?(.*)$')
  if state == 'sent' then
    local _, _, queue = read_node(flow, number)
    local zset = flow.namespace .. ':' .. queue
    local record = zset .. ':x:job:' .. id
    local found = redis.call('HMGET', record, 'state', 'receives', 'flow')
    return job_state(zset .. ':Q', zset, id, found[1], found[2], now) or 'expired', id, record, found[1], found[3]
  end
  return state, id
end

-- Ends the nodes of these numbers whose jobs have ended, and writes records again that have expired.
local function check_nodes(flow, first, last)
  for number = first, last do
    local state, id, record, stored, place = state_of_node(flow, number, flow.now)
    if record then
      local own = flow.key .. ' ' .. number
      if has_job_ended(stored) or state == 'expired' and not stored then
        end_node(own, record, state, change_job)
      elseif state == 'expired' then
        redis.call('HSET', record, 'flow', own)
        change_job(record, 'expire', flow.now, '', 0)
      elseif place ~= own then
        redis.call('HSET', record, 'flow', own, 'state', stored or state)
        redis.call('PEXPIRE', record, '604800000')
      end
    end
  end
end
