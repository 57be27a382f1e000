-- Removes what can't be undone any more, without blocking the server; the trash would expire a minute later.
--
-- KEYS[1] trash   hash    what can be restored
--
-- returns the number of deletions that are left
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include emptying.lua

local trash = KEYS[1]

remove_ended(trash, server_time_ms())
return redis.call('HLEN', trash)
