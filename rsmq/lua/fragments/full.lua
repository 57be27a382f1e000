-- What comes before a script's changes: leave to make them.

-- A script whose first change is one that Redis allows when memory is full may go on changing:
-- so a full server can still be drained. This one changes nothing; no id is empty.
local function allow_when_full(zset)
  redis.call('ZREM', zset, '')
end

-- The same for a script that removes: a user who may not remove from both keys fails here, before
-- anything is changed, and keys of another type do.
local function allow_removal(zset, hash)
  allow_when_full(zset)
  redis.call('HDEL', hash, '')
end
