-- Deletes the message of a finished task, and sends the next task, in one step. The message of a map is counted
-- instead, and the last one of the map sends the next task. The record of a tracked message ends here.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] to_hash   hash        the same two keys of the queue of the next task
-- KEYS[4] to_zset   sorted set
-- KEYS[5] map       hash        the record of the map: the numbers of its unfinished messages, and under 'then' the
--                               size and the body of the next task, 'SIZE:BODY'; the hash of the queue without a map
-- ARGV[1] id        string      the message
-- ARGV[2] count     integer     its receive count
-- ARGV[3] number    string      its number in the map; '' = it is not of a map
-- ARGV[4] body      bytes       the next task; '' for a map
-- ARGV[5] size      integer     its size in UTF-16 code units
-- ARGV[6] suffix    string      the 22 random characters of its id
-- ARGV[7] channel   string      channel for the number of messages; '' = none
-- ARGV[8] lifetime  integer     ms for which the record of the map is stored from now on
-- ARGV[9] tracked   integer     ms for which the record of the message lives if it is tracked, else ''
-- ARGV[10] result   bytes       the result for this record, JSON
-- ARGV[11] progress string      the last progress for this record, 'done total text'; '' = none is new
--
-- returns the id of the next task; '' if messages of the map are unfinished, or if its record has expired; nothing
--         if the message is not in the queue or was received again since: then nothing is changed
-- errors  QUEUENOTFOUND, INVALIDVALUE and MESSAGETOOLONG of the queue of the next task; then nothing is changed
-- source  none in Node; it leaves what npm rsmq 0.12.4 deleteMessage and sendMessage leave
-- @include time_us.lua
-- @include digits.lua
-- @include due.lua
-- @include full.lua
-- @include id.lua
-- @include jobs.lua
-- @include local_keys.lua
-- @include sending.lua
-- @include totals.lua

local hash, zset, to_hash, to_zset, map = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, count, number, body, size = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local suffix, channel, lifetime, tracked = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local result, progress = ARGV[10], ARGV[11]

if redis.call('HGET', hash, id .. ':rc') ~= count or not redis.call('ZSCORE', zset, id) then
  return false
end
if tracked ~= '' then
  require_local_beside(zset, ':x:job:')
end
local is_last = true
if number ~= '' then
  is_last = redis.call('HEXISTS', map, number) == 1 and redis.call('HLEN', map) == 2
  if is_last then
    size, body = string.match(redis.call('HGET', map, 'then') or '', '^(%d+):(.*)$')
  end
end
local us, wait, stored = server_time_us(), nil, nil
local now = math.floor(us / 1000)
if is_last then
  stored, wait = sendable(to_hash, size, '', now)
  if not stored then
    return wait
  end
end
allow_removal(zset, hash) -- these fail before any change, without the right or on a key of another type
if is_last then
  redis.call('ZADD', to_zset, 'XX', '0', '')
  if channel ~= '' then
    redis.call('PUBLISH', channel, redis.call('ZCARD', to_zset) + 1)
  end
end
if number ~= '' then
  if is_last then
    redis.call('UNLINK', map)
  else
    redis.call('HDEL', map, number)
    redis.call('PEXPIRE', map, lifetime)
  end
end

local next_id = ''
if is_last then
  next_id = base36(us) .. suffix
  add_to(to_hash, 'totalsent', 1)
  redis.call('HSET', to_hash, next_id, body)
  redis.call('ZADD', to_zset, digits(now + wait), next_id)
end
remove_messages(zset, hash, {id})
if tracked ~= '' then -- the user may lack the right
  pcall(change_job, zset .. ':x:job:' .. id, 'succeed', now, tracked, 0, 'result', result,
    fields_of_progress(progress))
end
return next_id
