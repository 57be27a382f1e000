-- The results of a map whose next task takes them. The record of the map then also has left and total, the numbers of
-- unfinished and of all messages; size, that of the results in UTF-16 code units; and by r and the number of a message its
-- result.
-- @include digits.lua
-- @include sending.lua

-- Stores the result of a message that is not the last one. `size` is that of the next task with the results so far, and
-- `of_results` that of the results alone. Returns why it is refused; then nothing is changed.
local function keep_result(map, number, result, size, of_results, to_hash, lifetime)
  local stored, refusal = sendable(to_hash, size, '', 0)
  if not stored then
    return refusal
  end
  redis.call('HDEL', map, number)
  redis.call('HSET', map, 'r' .. number, result, 'size', digits(of_results))
  redis.call('HINCRBY', map, 'left', '-1')
  redis.call('PEXPIRE', map, lifetime)
end

-- Returns the body of the next task with all results, in the order of the messages, and the fields of the record. The
-- result of message `number` is not stored.
local function with_results(map, body, number, result)
  local results, names = {}, {number, 'then', 'left', 'total', 'size'}
  for each = 0, redis.call('HGET', map, 'total') - 1 do
    local name = 'r' .. digits(each)
    results[each + 1] = digits(each) == number and result or redis.call('HGET', map, name) or 'null'
    names[#names + 1] = name
  end
  local list = '[' .. table.concat(results, ',') .. ']'
  body = string.gsub(body, '\1results\1', function()
    return list
  end)
  return body, names
end
