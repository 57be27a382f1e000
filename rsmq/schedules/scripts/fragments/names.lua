-- The names of schedules, beside which x:due has the unfinished flows of tasks.

-- Returns the names of all schedules, in the order of their next attempts.
local function schedule_names(due)
  local names = {}
  for _, name in ipairs(redis.call('ZRANGE', due, '0', '-1')) do
    if string.sub(name, 1, 5) ~= 'flow:' then
      names[#names + 1] = name
    end
  end
  return names
end
