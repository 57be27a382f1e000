-- The records of tracked messages. Beside the queue, each has a hash that ends with `:x:job:` and its id: state, attempt,
-- receives (the receive count of this attempt), worker, begun and ended (ms), result (JSON) and error; done, total and
-- text of its progress; cancel (ms) while it is to be cancelled; ttl (ms for which it lives after its end), unless that is
-- an hour; flow, the key of its flow, a blank and the number of the node; and next, the id of the message that its `then`
-- has sent, a blank and the queue of that. It expires.
-- @include digits.lua

local function has_job_ended(state)
  return state == 'succeeded' or state == 'failed' or state == 'cancelled' or state == 'expired'
end

-- Returns the state after an event, or nothing if the event changes nothing. A job that has ended begins again only if
-- someone has restored its message. `is_asked` is whether it is to be cancelled: then it succeeds, or gets no other
-- attempt.
local function next_job_state(state, event, is_asked)
  local is_stop = event == 'begin' or event == 'hide' or event == 'retry' or event == 'fail'
  if has_job_ended(state) and event ~= 'begin' then
    return
  elseif is_asked and is_stop then
    return 'cancelled'
  end
  local after = {send = 'waiting', begin = 'running', hide = 'waiting', retry = 'retrying', succeed = 'succeeded',
    fail = 'failed', ask = 'running', progress = state, cancel = 'cancelled', expire = 'expired'}
  return after[event]
end

-- Returns the fields of a progress, 'done total text'; nothing if it is ''.
local function fields_of_progress(progress)
  local done, total, text = string.match(progress, '^(%S+) (%S*) (.*)$')
  if done then
    return 'done', done, 'total', total, 'text', text
  end
end

-- Changes the record of a message after an event at the ms `now`, adds fields, and returns its state after that, or
-- nothing if it is not changed. It lives for so many ms; '' = an hour if the job has ended, else a week more than
-- `wait`. The script has called require_local_beside, or the key is in its KEYS.
local function change_job(key, event, now, lifetime, wait, ...)
  local stored = redis.call('HMGET', key, 'state', 'cancel')
  local state = next_job_state(stored[1], event, stored[2])
  if not state then
    return
  elseif stored[1] and event == 'begin' then
    redis.call('HDEL', key, 'ended', 'ttl', 'result', 'done', 'total', 'text', 'next')
  elseif event == 'succeed' then
    redis.call('HDEL', key, 'error')
  end
  redis.call('HSET', key, 'state', state, ...)
  if has_job_ended(state) then
    local ttl = lifetime ~= '' and lifetime or '3600000'
    redis.call('HDEL', key, 'cancel')
    redis.call('HSET', key, 'ended', digits(now))
    if ttl ~= '3600000' then
      redis.call('HSET', key, 'ttl', ttl)
    end
    redis.call('PEXPIRE', key, ttl)
    local place = string.sub(key, -2) == 'Fr' and redis.call('HGET', key, 'flow') -- the end of ids of nodes
    if place then
      -- @include flows.lua
      pcall(end_node, place, key, state, change_job) -- if it fails, as without the right, the next check of the flow does it
    end
  else
    redis.call('PEXPIRE', key, digits(wait + 604800000))
  end
  return state
end
