-- The sums of the queues of a namespace in one minute, between the calls that record it:
-- {minute, bytes}, the four gauges, and for each first minute {first minute, sent, received}.
-- @include packing.lua

local function new_sums(minute)
  return {{minute, 0}, {0, 0, 0, 0}}
end

local function parse_sums(text)
  return text and unpack_groups(text, {2, 4, 3})
end

local function add_to_sums(sums, bytes, gauges, begin, sent, received)
  sums[1][2] = sums[1][2] + bytes + 300 -- the key, and the state
  for at = 1, 3 do
    sums[2][at] = sums[2][at] + gauges[at]
  end
  sums[2][4] = math.max(sums[2][4], gauges[4])
  if not begin then
    return
  end
  for at = 3, #sums do
    if sums[at][1] == begin then
      sums[at][2], sums[at][3] = sums[at][2] + sent, sums[at][3] + received
      return
    end
  end
  sums[#sums + 1] = {begin, sent, received}
end

-- Adds the sums to the history of the namespace, and returns its bytes.
local function store_sums(history, sums, share)
  local minute, gauges = sums[1][1], sums[2]
  local state, changes = parse_state(redis.call('HGET', history, 'state') or nil), {}
  local spans = {unpack(sums, 3)}
  if #spans == 0 and state[1][2] > 0 then
    spans[1] = {state[1][2], 0, 0}
  end
  -- The earliest first: one that has begun in another hour is a record of its own.
  table.sort(spans, function(one, other) return one[1] < other[1] end)
  for at, span in ipairs(spans) do
    local of_minute = at == #spans and gauges or {0, 0, 0, 0}
    add_minutes(history, state, changes, span[1], minute, {span[2], span[3], unpack(of_minute)}, share, false)
  end
  state[1][2] = minute
  store_history(history, state, changes)
  return state[1][5]
end
