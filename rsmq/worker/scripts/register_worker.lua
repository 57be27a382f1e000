-- Registers a worker under its name, unless another live worker has the name.
--
-- KEYS[1] workers    hash     workers by name, as in fragments/workers.lua
-- KEYS[2] in_flight  hash     the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] name       string   the worker's name
-- ARGV[2] token      string   token of the calling worker
-- ARGV[3] dead       string   token of a worker whose process is known to have died; '' = none
-- ARGV[4] ttl        integer  ms for which it counts as alive without a heartbeat
-- ARGV[5] lifetime   integer  ms for which it is remembered after its death
-- ARGV[6] info       string   its description of itself, JSON
--
-- returns {ms for which another worker still counts as alive, its token, its description of itself} if it has the
--         name. Else the caller has it now: {0, token, description, ms of its last expiry} of a worker that had the
--         name and has not unregistered, so it has died; nil without one, and if the call is repeated
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include lifetime.lua
-- @include workers.lua

local workers, in_flight = KEYS[1], KEYS[2]
local name, token, dead, ttl, lifetime, info = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local now = server_time_ms()
local expires, holder, holder_info = registered_worker(workers, name)
if expires and expires > now and holder ~= token and holder ~= dead then
  return {expires - now, holder, holder_info}
end
redis.call('HDEL', workers, '') -- no worker has this name: when memory is full, it allows the writes below
local stored = redis.call('HGETALL', workers)
for at = 1, #stored, 2 do -- remove workers that died longer ago than their lifetime
  local expired = tonumber(string.match(stored[at + 1], '^%d+') or 0)
  if expired + tonumber(lifetime) < now then
    redis.call('HDEL', workers, stored[at])
  end
end
redis.call('HSET', workers, name, digits(now + ttl) .. ':' .. token .. ':' .. info)
redis.call('HSET', in_flight, '', token)
redis.call('HDEL', in_flight, ':orders', ':running') -- they belong to the run before
keep_for(workers, lifetime)
keep_for(in_flight, lifetime)
return expires and holder ~= token and {0, holder, holder_info, digits(expires)}
