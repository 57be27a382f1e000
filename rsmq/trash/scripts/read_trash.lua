-- Returns what can be restored, and whether more can be kept.
--
-- KEYS[1] trash   hash    what can be restored
--
-- returns {now ms, why nothing can be kept now: '', 'memory' or 'full', id, the deletion as stored, id ...}; those
--         that can't be undone any more are left out
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include trash.lua
-- @include emptying.lua

local trash = KEYS[1]

local now = server_time_ms()
local answer = {digits(now), why_off(trash) or ''}
local found = redis.call('HGETALL', trash)
for at = 1, #found, 2 do
  local deletion = deletion_of(trash, found[at])
  if deletion.ms + undo_ms() > now or deletion.state == 'undoing' then
    answer[#answer + 1], answer[#answer + 2] = found[at], found[at + 1]
  end
end
return answer
