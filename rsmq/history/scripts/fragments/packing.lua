-- Records of a history, packed into chunks, and the state that a recorder keeps of each history.
--
-- A chunk is a field of a history: mN has the minutes of hour N, dN the hours of day N (since 1970). A record is
-- eight numbers: its last minute within the chunk, its length in minutes, sent, received, visible, in flight,
-- delayed, and 1 + the age in seconds of the oldest visible message, or 0. Or it is two, a last minute and 0: up to
-- it, nothing has changed since the record before, but for the age. A number is 7 bits in each byte, the lowest first.
-- @include digits.lua

local function pack_numbers(numbers)
  local bytes = {}
  for _, number in ipairs(numbers) do
    while number >= 128 do
      bytes[#bytes + 1] = string.char(number % 128 + 128)
      number = math.floor(number / 128)
    end
    bytes[#bytes + 1] = string.char(number)
  end
  return table.concat(bytes)
end

-- Returns the numbers of a text in groups: `sizes` has their lengths, its last one that of all further groups.
local function unpack_groups(text, sizes)
  local groups, number, weight = {{}}, 0, 1
  for at = 1, #text do
    local byte = string.byte(text, at)
    number, weight = number + byte % 128 * weight, weight * 128
    if byte < 128 then
      local group = groups[#groups]
      if #group == (sizes[#groups] or sizes[#sizes]) then
        group = {}
        groups[#groups + 1] = group
      end
      group[#group + 1] = number
      number, weight = 0, 1
    end
  end
  return groups
end

local function pack_groups(groups)
  local texts = {}
  for at, numbers in ipairs(groups) do
    texts[at] = pack_numbers(numbers)
  end
  return table.concat(texts)
end

-- Returns a state: {created, minute, sent, received, bytes}, the unfinished hour {first minute or 0, sent, received,
-- the largest of the four gauges}, and the last records of minutes and of hours {last minute, the four gauges, 1 if
-- it is a repetition}.
local function parse_state(text)
  if not text then
    return {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}}
  end
  return unpack_groups(text, {5, 7, 6, 6})
end

-- Returns about how many bytes a chunk needs in Redis.
local function bytes_of_chunk(length)
  if length == 0 then
    return 0
  end
  return length > 64 and math.ceil(length * 1.1) + 60 or length + 20
end

-- Adds a record to its chunk. `unit` is the minutes of a usual one: only these can repeat.
local function add_record(key, state, changes, prefix, length, unit, last, record)
  local stop = record[1]
  local field = prefix .. digits(math.floor(stop / length))
  local before = changes[field] or redis.call('HGET', key, field) or ''
  local place, chunk = stop % length, before
  local oldest = last[5] > 0 and last[5] + 60 * unit or 0
  if stop - last[1] == unit and place >= unit and record[2] == unit and record[3] + record[4] == 0
    and record[5] == last[2] and record[6] == last[3] and record[7] == last[4] and record[8] == oldest then
    if last[6] == 1 then
      chunk = string.sub(chunk, 1, -1 - #pack_numbers({last[1] % length, 0}))
    end
    chunk = chunk .. pack_numbers({place, 0})
    last[6] = 1
  else
    chunk = chunk .. pack_numbers({place, unpack(record, 2, 8)})
    last[2], last[3], last[4], last[6] = record[5], record[6], record[7], 0
  end
  last[1], last[5] = stop, record[8]
  state[1][5] = state[1][5] + bytes_of_chunk(#chunk) - bytes_of_chunk(#before)
  state.has_new_chunk = state.has_new_chunk or before == ''
  changes[field] = chunk
end

local function finish_hour(key, state, changes, stop)
  local hour = state[2]
  add_record(key, state, changes, 'd', 1440, 60, state[4], {stop, stop - hour[1] + 1, unpack(hour, 2, 7)})
  state[2] = {0, 0, 0, 0, 0, 0, 0}
end

-- Removes the chunks that are older than the share (percent) of 26 hours and 90 days that is kept.
local function prune_chunks(key, state, share, minute)
  local hours = math.max(math.ceil(26 * share / 100), 1)
  local days = math.max(math.ceil(90 * share / 100), 1)
  local first = {m = math.floor(minute / 60) - hours, d = math.floor(minute / 1440) - days}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local prefix, number = string.match(field, '^([md])(%d+)$')
    if prefix and tonumber(number) < first[prefix] then
      state[1][5] = state[1][5] - bytes_of_chunk(redis.call('HSTRLEN', key, field))
      redis.call('HDEL', key, field)
    end
  end
end

-- Adds what has happened in the minutes from `begin` to the one before `minute`: {sent, received, four gauges}.
-- With `is_full` nothing is stored but the state.
local function add_minutes(key, state, changes, begin, minute, values, share, is_full)
  local stop = minute - 1
  local record = {stop, minute - begin, unpack(values)}
  local hour_begin = stop - stop % 60
  local is_new_hour = false
  if not is_full then
    add_record(key, state, changes, 'm', 60, 1, state[3], record)
  end
  if state[2][1] > 0 and state[2][1] < hour_begin then
    finish_hour(key, state, changes, state[1][2] - 1)
    is_new_hour = true
  end
  if begin < hour_begin then
    add_record(key, state, changes, 'd', 1440, 60, state[4], record)
    is_new_hour = true
  else
    local hour = state[2]
    if hour[1] == 0 or begin < hour[1] then
      hour[1] = begin
    end
    hour[2], hour[3] = hour[2] + values[1], hour[3] + values[2]
    for at = 4, 7 do
      hour[at] = math.max(hour[at], values[at - 1])
    end
    if minute % 60 == 0 then
      finish_hour(key, state, changes, stop)
      is_new_hour = true
    end
  end
  if is_new_hour then
    prune_chunks(key, state, share, minute)
  end
end

-- Stores a history, for 91 days from its last chunk.
local function store_history(key, state, changes)
  local words = {'state', pack_groups(state)}
  for field, chunk in pairs(changes) do
    words[#words + 1], words[#words + 2] = field, chunk
  end
  redis.call('HSET', key, unpack(words))
  if state.has_new_chunk or state[1][5] == 0 then
    redis.call('PEXPIRE', key, '7862400000')
  end
end
