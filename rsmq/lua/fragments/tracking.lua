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

-- Writes the records of messages that were stored, new or in place of others; `fields` has their ids and bodies. New
-- ones are visible after `wait` ms.
local function track_sent(zset, track, fields, replace, wait, now)
  for at = 1, track ~= '' and #fields or 0, 2 do
    local id = fields[at]
    local left = replace == '1' and math.max(redis.call('ZSCORE', zset, id) - now, 0) or wait
    change_job(zset .. ':x:job:' .. id, 'send', nil, '', left)
  end
end
