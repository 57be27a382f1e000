-- Finds the names of stored bodies in the values of a key: one step of a walk. Changes nothing.
--
-- KEYS[1] key     any      a key of the namespace
-- ARGV[1] cursor  string   the position; '0' = the first step
-- ARGV[2] count   integer  about how many values to read
--
-- returns {the next position, '0' at the end; {name ...}}; a string, a stream and a missing key have none
-- errors  none
-- source  none in Node

local key = KEYS[1]
local cursor, count = ARGV[1], ARGV[2]

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
local names = {}
for _, value in ipairs(values) do
  if string.find(value, 'stored=', 1, true) then
    for name in string.gmatch(value, 'stored=(%x+)') do
      names[#names + 1] = name
    end
  end
end
return {after, names}
