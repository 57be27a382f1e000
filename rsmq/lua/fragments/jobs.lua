-- The records of tracked messages. Beside the queue, each has a hash that ends with `:x:job:` and its id: state, attempt,
-- receives (the receive count of this attempt), worker, begun and ended (ms), result (JSON) and error. It expires.
-- @include digits.lua

-- Returns the state after an event, or nothing if the event changes nothing. A job that has ended begins again only if
-- someone has restored its message.
local function next_job_state(state, event)
  local ends = {succeeded = 1, failed = 1, cancelled = 1, expired = 1}
  if ends[state] and event ~= 'begin' then
    return
  end
  local after = {send = 'waiting', begin = 'running', hide = 'waiting', retry = 'retrying', succeed = 'succeeded',
    fail = 'failed', cancel = 'cancelled', expire = 'expired'}
  return after[event]
end

-- Changes the record of a message after an event, and adds fields. It lives for so many ms; '' = a week more than
-- `wait`, because it has not ended. The script has called require_local_beside, or the key is in its KEYS.
local function change_job(key, event, lifetime, wait, ...)
  local stored = redis.call('HGET', key, 'state')
  local state = next_job_state(stored, event)
  if state then
    if stored and event == 'begin' then
      redis.call('HDEL', key, 'ended', 'result')
    elseif event == 'succeed' then
      redis.call('HDEL', key, 'error')
    end
    redis.call('HSET', key, 'state', state, ...)
    redis.call('PEXPIRE', key, lifetime ~= '' and lifetime or digits(wait + 604800000))
  end
end

-- Returns the state of a job, or nothing if neither record nor message is there. What has not ended is compared with
-- the message, which other clients change without its record.
local function job_state(hash, zset, id, stored, receives, now)
  local next_state = next_job_state(stored, 'hide')
  if stored and not next_state then
    return stored
  end
  local score = redis.call('ZSCORE', zset, id)
  local found = redis.call('HMGET', hash, id, id .. ':rc')
  if not score or not found[1] then
    return stored and 'expired'
  elseif tonumber(score) <= now then
    return stored == 'retrying' and stored or 'waiting'
  elseif (found[2] or '0') == '0' then
    return 'waiting'
  end
  return found[2] == receives and stored or 'running'
end
