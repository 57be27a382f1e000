-- The next delayed and retrying messages of a queue, for read_queues.lua.
-- @include queue.lua
-- @include retrying.lua
-- @include held_back.lua

-- Returns {id, score, receive count or '', error or nil, id ...}; nothing if the queue does not exist.
local function next_messages(hash, zset, options)
  if not queue(hash) then
    return
  end
  local found = redis.call('ZRANGEBYSCORE', zset, '(' .. options.now_ms, '+inf', 'WITHSCORES', 'LIMIT', '0',
    options.most)
  local ids, names = {}, {}
  for at = 1, #found, 2 do
    ids[#ids + 1], names[#names + 1] = found[at], found[at] .. ':rc'
  end
  local counts = #ids > 0 and redis.call('HMGET', hash, unpack(names)) or {}
  local failures, shown = errors_of(zset, hash, ids, counts), {}
  for at, id in ipairs(ids) do
    if failures[at] or not counts[at] and not due_of_held_back(zset, hash, id) then
      for _, value in ipairs({id, found[2 * at], counts[at] or '', failures[at]}) do
        shown[#shown + 1] = value
      end
    end
  end
  return shown
end
