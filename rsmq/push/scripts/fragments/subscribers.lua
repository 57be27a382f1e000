-- The record of subscribers: a hash from 'source queue/name' to JSON, and under the empty name the version,
-- which every change raises.
-- @include digits.lua

-- Returns the version as stored; '' if there are no subscribers.
local function version_of(subscribers)
  return redis.call('HGET', subscribers, '') or ''
end

-- Returns a higher version than the stored one: the microseconds of the change. A record that was deleted and
-- made again therefore has another version too.
local function next_version(subscribers, us)
  return digits(math.max(us, (tonumber(version_of(subscribers)) or 0) + 1))
end
