-- The cancellation of jobs.
-- @include digits.lua
-- @include due.lua
-- @include jobs.lua
-- @include job_state.lua
-- @include leaving.lua

-- Cancels a job, as cancel_job.lua describes it, and returns what that returns.
local function cancel_job(hash, zset, record, id, now, lifetime, obeyed)
  local found = redis.call('HMGET', record, 'state', 'receives', 'cancel')
  local state, score, count = job_state(hash, zset, id, found[1], found[2], now)
  if not state or has_job_ended(found[1]) then
    return state
  elseif state == 'running' and obeyed == '' then
    return state
  elseif state == 'running' and found[3] then
    return 'requested'
  end
  redis.call('HDEL', record, '') -- these fail here if the user lacks the right, before any change
  redis.call('PEXPIRE', record, '604800000')
  if state == 'expired' then
    change_job(record, 'expire', now, lifetime, 0)
    return state
  elseif state == 'running' then
    change_job(record, 'ask', now, '', score - now, 'receives', count, 'cancel', digits(now))
    return 'requested'
  end
  change_job(record, 'cancel', now, lifetime, 0)
  remove_message(zset, hash, id)
  note_left(zset, hash, {id})
  return 'cancelled'
end
