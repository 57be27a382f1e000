-- The hash `copied` beside a queue: digests of the messages that were copied to it from another system, and
-- facts about the copies and moves that are under way.

-- Returns whether the digests belong to this queue, and not to a deleted queue of the same name.
local function is_of_queue(copied, hash)
  return redis.call('HGET', copied, 'created') == (redis.call('HGET', hash, 'created') or '')
end

-- Deletes all digests, and marks the hash as belonging to this queue.
local function reset_copies(copied, hash)
  redis.call('UNLINK', copied)
  redis.call('HSET', copied, 'created', redis.call('HGET', hash, 'created') or '')
end

-- Returns whether a run still has the right to add messages: its field has its value. A later run stores its
-- own value there. A script without a field needs no right.
local function is_current_run(copied, hash, field, run)
  return field == '' or is_of_queue(copied, hash) and redis.call('HGET', copied, field) == run
end

-- Stores the watermark of a source, in a field of the hash; '' = it has none.
local function store_watermark(copied, hash, field, watermark, lifetime)
  if field ~= '' then
    if not is_of_queue(copied, hash) then
      reset_copies(copied, hash)
    end
    redis.call('HSET', copied, field, watermark)
    redis.call('PEXPIRE', copied, lifetime)
  end
end
