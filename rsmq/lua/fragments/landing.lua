-- Where messages from another system go. A row is: digest, id, body, score, receive count and time of the
-- first receive, as in restoring.lua. The digest tells what message of its source it is; an empty
-- id has no message: there is nothing that goes anywhere.

-- Adds rows to a queue; how many.
local function land(hash, zset, rows)
  local given = {}
  for at = 1, #rows, 6 do
    if rows[at + 1] ~= '' then
      for place = 1, 5 do
        given[#given + 1] = rows[at + place]
      end
    end
  end
  return restore(hash, zset, given, 1, digits(server_time_ms()))
end

-- Keeps rows in a hash, from where they go to another server: by id score, count, time, digest and
-- body, with a space behind each but the last.
local function set_aside(aside, rows)
  local fields = {}
  for at = 1, #rows, 6 do
    if rows[at + 1] ~= '' then
      fields[#fields + 1] = rows[at + 1]
      fields[#fields + 1] = table.concat(
        {rows[at + 3], rows[at + 4], rows[at + 5], rows[at], rows[at + 2]}, ' '
      )
    end
  end
  variadic('HSET', aside, fields)
end

-- Adds a row of the arguments, from this place on, to those that go on, unless it was copied before:
-- the answer for its message.
local function go_on(rows, given, at, counts, copied)
  if counts and given[at] ~= '' and redis.call('HEXISTS', copied, given[at]) == 1 then
    return '2'
  end
  for place = 0, 5 do
    rows[#rows + 1] = given[at + place]
  end
  return '1'
end

-- Whether a message without a digest, which only its id tells from others, went there before.
local function went_before(to, zset, digest, id)
  if digest ~= '' or id == '' then
    return false
  end
  if to == 'aside' then
    return redis.call('HEXISTS', zset, id) == 1
  end
  return redis.call('ZSCORE', zset, id) and true
end

-- Puts rows to where they go, a queue or aside; how many came to the queue.
local function put(to, hash, zset, rows)
  if to == 'aside' then
    set_aside(zset, rows)
    return 0
  end
  return land(hash, zset, rows)
end

-- Publishes how many messages there are. After all else: a user who may not has taken them then.
local function announce(channel, zset, came)
  if channel ~= '' and came > 0 then
    redis.call('PUBLISH', channel, redis.call('ZCARD', zset))
  end
end
