-- Many messages that are due.

-- Up to `want` of them, a list of {id, body, receive count with this time, first-received ms or
-- nil}, with bodies of at most `room` bytes in all, or one. Nothing is done to them; ghosts among
-- them are healed as for a single one, and where a policy is given, messages beyond its limit are
-- moved. A call moves and removes at most 1,000 others.
local function due_messages(zset, hash, now, want, room, dead)
  local taken, stepped_over, cleared, page, largest = {}, 0, 0, 8, 0
  while #taken < want and stepped_over < 1000 and cleared < 1000 do
    page = math.max(1, math.min(page * 2, want - #taken, 1000, math.floor(room / (largest + 1))))
    local due = redis.call('ZRANGEBYSCORE', zset, '-inf', digits(now), 'WITHSCORES',
      'LIMIT', #taken + stepped_over, page)
    local names = {}
    for at = 1, #due, 2 do
      local id = due[at]
      names[#names + 1], names[#names + 2], names[#names + 3] = id, id .. ':rc', id .. ':fr'
    end
    if #names == 0 then
      return taken
    end
    local values = redis.call('HMGET', hash, unpack(names))
    for at = 1, #names, 3 do
      local id, body = names[at], values[at]
      local count = math.floor(decimal(values[at + 1]) or 0)
      if not body and now - due[(at - 1) / 3 * 2 + 2] < 10000 then
        stepped_over = stepped_over + 1
      elseif not body then
        remove_message(zset, hash, id)
        cleared = cleared + 1
      elseif dead and count >= dead.limit then
        transfer(zset, hash, dead, id, digits(now))
        cleared = cleared + 1
      else
        room, largest = room - #body, math.max(largest, #body)
        if room < 0 and #taken > 0 then
          return taken
        end
        taken[#taken + 1] = {id, body, count + 1, values[at + 2]}
      end
    end
  end
  return taken
end
