-- Fails, before any change, if the user may not write the records of jobs. No record has this key, which lacks an id.
local function require_job_rights(zset)
  local key = zset .. ':x:job:'
  redis.call('HDEL', key, '')
  redis.call('HGET', key, '')
  redis.call('PEXPIRE', key, '1')
end
