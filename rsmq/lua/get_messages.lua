-- Returns messages as they are stored, by their ids; nothing is changed.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] room      integer     bytes of bodies at most, except for the first body
-- ARGV[2...] ids    strings     the messages' ids
--
-- returns {now ms, vt as stored, {body or nil, receive count or nil, first-received ms or nil, score or nil,
--         body ...} of as many ids as there was room for, as in fragments/shown.lua, {the error of the last
--         attempt of each that waits for a retry, or what add_groups puts there, or nil}}; an id that is not in the queue has no score
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include shown.lua
-- @include retrying.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local room = ARGV[1]
local ids = ARGV
room = tonumber(room)

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local now, values, looked_up, counts = server_time_ms(), {}, {}, {}
for at = 2, #ids do
  if room <= 0 and at > 2 then
    break
  end
  local id = ids[at]
  local fields = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
  fields[1] = not is_reserved(id) and fields[1]
  room = room - #(fields[1] or '')
  looked_up[#looked_up + 1] = id
  local score = redis.call('ZSCORE', zset, id)
  counts[#looked_up] = score and tonumber(score) > now and fields[2]
  for _, value in ipairs({fields[1], fields[2], fields[3], score}) do
    values[#values + 1] = value
  end
end
local errors = errors_of(zset, hash, looked_up, counts)
add_groups(zset, hash, looked_up, errors)
return {digits(now), stored[1], values, shown_of(zset, looked_up), errors}
