-- Lists the subscribers.
--
-- KEYS[1] subscribers  hash    the record of subscribers
-- ARGV[1] version      string  the version that the caller has read; '' = none
--
-- returns {field, record, field ...}, with the version under the empty field; nil if the version is still this
-- errors  none
-- source  none in Node
-- @include subscribers.lua

local subscribers = KEYS[1]
local version = ARGV[1]

if version ~= '' and version == version_of(subscribers) then
  return false
end
return redis.call('HGETALL', subscribers)
