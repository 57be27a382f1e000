-- Tells the state of a job, by its record and its message.
-- @include jobs.lua
-- @include retrying.lua

-- Returns the state of a job, or nothing if neither record nor message is there, and the score and the receive count of
-- its message. A job that has not ended is compared with its message, which other clients change without its record, and so
-- do workers that do not track it. It fails if what is beside the queue is on another node of a cluster.
local function job_state(hash, zset, id, stored, receives, now)
  if has_job_ended(stored) then
    return stored
  end
  local score = redis.call('ZSCORE', zset, id)
  local found = redis.call('HMGET', hash, id, id .. ':rc')
  local count = found[2] or '0'
  if not score or not found[1] then
    return stored and 'expired'
  elseif tonumber(score) <= now then
    return stored == 'retrying' and stored or 'waiting', score, count
  elseif count == '0' then
    return 'waiting', score, count
  elseif stored and count == receives then
    return stored, score, count
  end
  return errors_of(zset, hash, {id}, {count})[1] and 'retrying' or 'running', score, count
end
