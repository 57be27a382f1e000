-- Returns from which queues dead letters came, as the reasons say that workers have stored: of chosen
-- messages, or of messages that are visible.
--
-- KEYS[1] hash    hash        the dead-letter queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the dead-letter queue's message ids
-- ARGV[1] last    integer     the last score that is visible; '' = now
-- ARGV[2] skip    integer     how many visible messages to skip
-- ARGV[3] number  integer     the maximum number of visible messages
-- ARGV[4...] chosen strings    the ids of the chosen messages
--
-- returns {ms now, {id, receive count, the queue's name or '', id ...}}, without chosen messages that are not
--         in the queue
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reasons.lua

local hash, zset = KEYS[1], KEYS[2]
local last, skip, number = ARGV[1], ARGV[2], ARGV[3]
local chosen = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
local now = digits(server_time_ms())
local ids = {unpack(chosen, 4)}
if #ids == 0 then
  ids = redis.call('ZRANGEBYSCORE', zset, '-inf', last ~= '' and last or now, 'LIMIT', skip, number)
end
local reasons, origins = records_of(zset, ids, ':x:reasons'), {}
for each = 1, #ids do
  local text = string.match(reasons[each] or '', '^%d+:(.*)$')
  local is_json, reason = pcall(cjson.decode, text or '')
  local origin = is_json and type(reason) == 'table' and reason.queue
  if redis.call('ZSCORE', zset, ids[each]) then
    origins[#origins + 1] = ids[each]
    origins[#origins + 1] = redis.call('HGET', hash, ids[each] .. ':rc') or '0'
    origins[#origins + 1] = type(origin) == 'string' and origin or ''
  end
end
return {now, origins}
