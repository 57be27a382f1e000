-- The end of what was kept.
-- @include trash.lua

-- Removes what can't be undone any more. Its keys are not in KEYS; while the slot is being moved they may be on
-- another node, where they expire.
local function remove_ended(trash, now)
  for _, id in ipairs(redis.call('HKEYS', trash)) do
    local deletion = deletion_of(trash, id)
    local lives = deletion.state == 'undoing' and 2 * undo_ms() or undo_ms()
    if deletion.ms + lives <= now then
      for name in string.gmatch(deletion.names, '([^=,]+)=') do
        redis.pcall('UNLINK', trash .. ':' .. id .. ':' .. name)
      end
      redis.call('HDEL', trash, id)
    end
  end
end

-- Returns why nothing can be kept now: 'memory' or 'full'. Without the right to INFO, memory is not known to be short.
local function why_off(trash)
  local info = redis.pcall('INFO', 'memory')
  if type(info) == 'string' then
    local used, most = string.match(info, 'used_memory:(%d+)'), string.match(info, 'maxmemory:(%d+)')
    if used and most and tonumber(most) > 0 and tonumber(used) > 0.8 * tonumber(most) then
      return 'memory'
    end
  end
  if redis.call('HLEN', trash) >= 1000 then
    return 'full'
  end
end

-- Returns the refusal of a deletion that can't be kept; nothing if it can.
local function trash_off(trash, now)
  remove_ended(trash, now)
  local reason = why_off(trash)
  return reason and redis.error_reply('TRASHOFF ' .. reason)
end
