-- What waits in a queue, for read_queues.lua.
-- @include queue.lua
-- @include received_again.lua

-- Returns {messages, visible ones, score of the first visible one, those that became visible lately, score of the first
-- of these, dead-letter queue of its policy, messages in that, ms of its pause, vt, whether workers have moved messages to
-- it, totalsent, totalrecv, created, modified, ms of its last resume, what received_again.lua returns}; false for what
-- there is not, or what the user may not read.
local function queue_backlog(hash, zset, options)
  local stored = queue(hash, 'x:dlq', 'x:paused', 'totalsent', 'totalrecv', 'created', 'modified', 'x:resumed')
  if not stored then
    return
  end
  local now, since = options.now_ms, options.since_ms
  local messages, visible, first, recent, first_recent = redis.call('ZCARD', zset), 0, nil, 0, nil
  if messages > 0 then
    visible = redis.call('ZCOUNT', zset, '-inf', now)
  end
  if visible > 0 then
    first = redis.call('ZRANGE', zset, '0', '0', 'WITHSCORES')[2]
    recent = redis.call('ZCOUNT', zset, since, now)
  end
  if recent > 0 then
    first_recent = redis.call('ZRANGEBYSCORE', zset, since, now, 'WITHSCORES', 'LIMIT', '0', '1')[2]
  end
  local again, count, lost, repeated, received, received_first, last_first = nil, 0, 0, 0, 0, nil, nil
  if messages > visible then
    again, count, lost, repeated, received, received_first, last_first = received_again(hash, zset, now,
      stored[1], stored[9])
  end
  local dead = stored[4] and redis.pcall('ZCARD', options.prefix .. stored[4])
  local has_reasons = messages > 0 and redis.pcall('EXISTS', zset .. ':x:reasons') == 1
  return {messages, visible, first or false, recent, first_recent or false, stored[4],
    type(dead) == 'number' and dead, stored[5], stored[1], has_reasons, stored[6], stored[7], stored[8], stored[9],
    stored[10], again or false, count, lost, repeated, received, received_first or false, last_first or false}
end
