-- Keys that a script finds in stored data, or beside a queue, and that are not in KEYS, since many users have no
-- right to them. While their slot is being moved, they may be on another node of the cluster than KEYS.

-- Returns whether a command failed because one of its keys is on another node.
local function is_elsewhere(failure)
  local text = type(failure) == 'table' and failure.err or failure
  return type(text) == 'string' and (string.find(text, 'non local key', 1, true)
    or string.find(text, 'undeclared keys', 1, true)) ~= nil
end

-- Runs a command that changes nothing, and fails if one of its keys is on another node: the client then repeats
-- the script. Other errors are ignored, such as that of a user without the right.
-- The node that a slot is moved from fails for each missing key. The node that it is moved to takes a missing
-- key for an absent one, unless the command has several keys.
local function require_local(...)
  if is_elsewhere(redis.pcall(...)) then
    redis.call(...)
  end
end

-- Fails if a hash beside a queue, with this ending, is on another node than the queue's sorted set. A script must
-- call it before its first change that may not be repeated.
local function require_local_beside(zset, ending)
  if type(redis.pcall('EXISTS', zset, zset .. ending)) == 'table' then
    require_local('EXISTS', zset, zset .. ending)
    require_local('HGET', zset .. ending, '') -- for users without the right to EXISTS
  end
end
