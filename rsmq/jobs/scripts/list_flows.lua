-- Lists flows, the one that was sent last first. The ids of those whose time to live has ended are removed from the list,
-- if the user may do that.
--
-- KEYS[1] sent    sorted set  the ids of the last 10,000 flows by the ms of their sends
-- ARGV[1] state   string      only those in this state; '' = any
-- ARGV[2] most    integer     the number of flows at most
--
-- returns for each flow its id and its fields, as read_flow.lua returns them
-- errors  none
-- source  none in Node
-- @include flow_fields.lua

local sent = KEYS[1]
local state, most = ARGV[1], ARGV[2]

local found, gone, at = {}, {}, 0
repeat
  local ids = redis.call('ZRANGE', sent, at, at + 999, 'REV')
  at = at + #ids
  for _, id in ipairs(ids) do
    local key = string.sub(sent, 1, -4) .. id
    local stored = redis.call('HGET', key, 'state')
    if not stored then
      gone[#gone + 1] = id
    elseif state == '' or state == stored then
      found[#found + 1] = {id, fields_of_flow(key)}
      if #found == tonumber(most) then
        break
      end
    end
  end
until #ids == 0 or #found == tonumber(most)
for from = 1, #gone, 1000 do
  redis.pcall('ZREM', sent, unpack(gone, from, math.min(from + 999, #gone)))
end
return found
