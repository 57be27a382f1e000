-- The records of messages that are sent.
-- @include jobs.lua

-- Writes the records of messages that were stored, new or in place of others; `fields` has their ids and bodies. New
-- ones are visible after `wait` ms.
local function track_sent(zset, fields, replaces, wait, now)
  for at = 1, #fields, 2 do
    local id = fields[at]
    local left = replaces and math.max(redis.call('ZSCORE', zset, id) - now, 0) or wait
    change_job(zset .. ':x:job:' .. id, 'send', nil, '', left)
  end
end
