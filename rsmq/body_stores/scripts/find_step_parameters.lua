-- Finds the first parameters of a step of bodies in the values of a key: one step of a walk. Changes nothing.
--
-- KEYS[1] key     any      a key of the namespace
-- ARGV[1] cursor  string   the position; '0' = the first step
-- ARGV[2] count   integer  about how many values to read
-- ARGV[3] step    string   the name of the step, such as stored or aes256gcm
--
-- returns {the next position, '0' at the end; {parameter ...}}, each once for each value that has it; a string, a
--         stream and a missing key have none
-- errors  none
-- source  none in Node

local key = KEYS[1]
local cursor, count, step = ARGV[1], ARGV[2], ARGV[3]

local walks = {hash = 'HSCAN', set = 'SSCAN', zset = 'ZSCAN'}
local kind = redis.call('TYPE', key).ok
local after, values = '0', {}
if walks[kind] then
  local scan = redis.call(walks[kind], key, cursor, 'COUNT', count)
  after, values = scan[1], scan[2]
elseif kind == 'list' then
  local last = tonumber(cursor) + tonumber(count) - 1
  values = redis.call('LRANGE', key, cursor, tostring(last))
  if #values == tonumber(count) then
    after = tostring(last + 1)
  end
end
local parameters = {}
for _, value in ipairs(values) do
  if string.find(value, step .. '=', 1, true) then
    local seen = {}
    for parameter in string.gmatch(value, '[:,]' .. step .. '=([%w._-]+)') do
      if not seen[parameter] then
        seen[parameter] = true
        parameters[#parameters + 1] = parameter
      end
    end
  end
end
return {after, parameters}
