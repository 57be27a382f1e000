-- Commands before a script's changes that check and obtain the right to make them.

-- If the first write of a script is one that Redis allows when memory is full, Redis allows the
-- other writes too, so that a full server can still be drained. This one changes nothing: no
-- message has an empty id.
local function allow_when_full(zset)
  redis.call('ZREM', zset, '\0none')
end

-- The same for a script that removes. It fails, before any change, if the user may not remove from
-- both keys, and on keys of another type.
local function allow_removal(zset, hash)
  allow_when_full(zset)
  redis.call('HDEL', hash, '\0none')
end
