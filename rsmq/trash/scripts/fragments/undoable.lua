-- The checks before something is restored.
-- @include trash.lua

local function no_undo(reason)
  return nil, redis.error_reply('CANNOTUNDO ' .. reason)
end

-- Returns a deletion; or nil and a refusal, if it can't be undone now. `is_there` is whether the queue exists, with this
-- stored `created`.
local function undoable(trash, id, now, is_there, created, kept_hash)
  local deletion = deletion_of(trash, id)
  if not deletion then
    return no_undo('unknown')
  elseif deletion.state == 'undone' then
    return no_undo('undone')
  elseif deletion.state == 'kept' and deletion.ms + undo_ms() <= now then
    return no_undo('over')
  elseif deletion.kind == 'delete-queue' then
    if is_there then
      return no_undo('exists')
    end
  elseif not is_there then
    return no_undo('deleted')
  elseif (redis.call('HGET', kept_hash, 'created') or '') ~= (created or '') then
    return no_undo(redis.call('EXISTS', kept_hash) == 1 and 'recreated' or 'evicted')
  end
  return deletion
end

-- Returns {live, kept, ms of its own expiry, ms that the live key will live} for each key that is kept, of pairs from
-- index `at` on; or nil and a refusal, if the server has evicted one.
local function kept_keys(keys, at, deletion, names, now)
  local found = {}
  for number, name in ipairs(names_in(names)) do
    local live, kept, ms = keys[at + 2 * number - 2], keys[at + 2 * number - 1], own_expiry(deletion, name)
    if ms and redis.call('EXISTS', kept) == 1 then
      found[#found + 1] = {live, kept, ms, redis.call('PTTL', live)}
    elseif ms and deletion.state == 'kept' and (ms == '' or tonumber(ms) > now) then
      return no_undo('evicted')
    end
  end
  return found
end

-- Removes what is left of what was kept.
local function finish(trash, id, deletion, found)
  for _, each in ipairs(found) do
    redis.call('UNLINK', each[2])
  end
  deletion.state, deletion.names = 'undone', ''
  put_deletion(trash, id, deletion)
end
