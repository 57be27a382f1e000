-- The record of one queue.
-- @include queue.lua
-- @include attributes.lua
-- @include packing.lua
-- @include gauges.lua
-- @include sums.lua

-- Records what has happened in a queue until a minute, and adds it to the sums. Returns 1, or 0 if there is nothing
-- to record. `finished` is the last minute of which all queues were recorded.
local function record_queue(hash, zset, key, sums, minute, now, finished, share, is_full)
  local found = queue(hash, 'created', 'totalsent', 'totalrecv')
  if not found then
    return 0
  end
  local created = math.floor(math.max(decimal(found[4]) or 0, 0))
  local sent = math.floor(math.max(decimal(found[5]) or 0, 0))
  local received = math.floor(math.max(decimal(found[6]) or 0, 0))
  local text = redis.call('HGET', key, 'state')
  local state = parse_state(text)
  local begin, sent_since, received_since = state[1][2], sent - state[1][3], received - state[1][4]
  if text and state[1][1] == created then
    if begin >= minute then
      return 0
    end
    -- A total that has become smaller has begun again.
    sent_since = sent_since < 0 and sent or sent_since
    received_since = received_since < 0 and received or received_since
  else
    if text then -- of a deleted queue
      redis.call('UNLINK', key)
      state = parse_state()
    end
    begin, sent_since, received_since = math.min(math.floor(created / 60), minute - 1), sent, received
    if finished == 0 or begin < finished then
      begin = nil -- the queue is older than its record: what happened before is not known by minutes
    end
  end
  local changes = {}
  local gauges = {gauges_of(hash, zset, now, minute)}
  if begin then
    local values = {sent_since, received_since, unpack(gauges)}
    add_minutes(key, state, changes, begin, minute, values, share, is_full)
  end
  state[1][1], state[1][2], state[1][3], state[1][4] = created, minute, sent, received
  store_history(key, state, changes)
  add_to_sums(sums, state[1][5], gauges, begin, sent_since, received_since)
  return 1
end
