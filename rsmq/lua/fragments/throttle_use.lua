-- The use that a receive makes of the limits of a queue.
-- @include digits.lua
-- @include throttle_state.lua
-- @include variadic.lua

-- Adds two functions: throttle:ms(now) as throttled_ms, and throttle:use(due, score), which notes messages that are
-- received now, in the form of due_many.lua, and hidden until the score.
local function add_functions(throttle)
  function throttle:ms(now)
    return throttled_ms(self, now)
  end

  function throttle:use(due, score)
    local members = {digits(self.created), ':'}
    if self.interval then
      self.used = self.used + due.number * self.interval
      members[3], members[4] = digits(self.used), ''
    end
    local first, counts = #members, {}
    for each = 1, #due.again, 3 do
      counts[due.again[each]] = due.again[each + 1]
    end
    for each = 1, self.most and due.number or 0 do
      members[first + 2 * each - 1], members[first + 2 * each] = digits(counts[each] or 1), due.told[2 * each - 1]
    end
    if self.most then
      self.number, self.next_end = self.number + due.number, math.min(self.next_end, score)
    end
    variadic('ZADD', self.key, members)
  end
end
