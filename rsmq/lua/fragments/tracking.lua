-- The records of messages that are sent. `track` is '1', or '' for messages without records.
-- @include jobs.lua
-- @include local_keys.lua

-- Fails if the records are on another node of a cluster.
local function require_local_jobs(zset, track)
  if track ~= '' then
    require_local_beside(zset, ':x:job:')
  end
end

-- Fails, before any change, if the user may not write records. No record has this key, which lacks an id.
local function require_job_rights(zset, track)
  if track ~= '' then
    local key = zset .. ':x:job:'
    redis.call('HDEL', key, '')
    redis.call('HGET', key, '')
    redis.call('PEXPIRE', key, '1')
  end
end

-- Writes the records of a batch: of the messages that no earlier one stands for. Their ids have a time, and 22 of the
-- suffixes each; they are visible after `wait` ms.
local function track_sent(zset, track, earlier_ids, time, suffixes, wait)
  for each = 1, track ~= '' and #earlier_ids or 0 do
    if earlier_ids[each] == '' then
      local id = time .. string.sub(suffixes, 22 * each - 21, 22 * each)
      change_job(zset .. ':x:job:' .. id, 'send', nil, '', wait)
    end
  end
end
