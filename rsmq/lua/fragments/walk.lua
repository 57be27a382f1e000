-- A walk through a queue in steps, so that none blocks the server, however long the queue is.
--
-- A position is a score and the number of ids of that score that were already read; the first
-- position is '-inf', 0.

-- Returns the next ids from a position on, with scores: at most `most`, up to the score `to`.
local function next_ids(zset, from, seen, to, most)
  return redis.call('ZRANGEBYSCORE', zset, from, to, 'WITHSCORES', 'LIMIT', seen, most)
end

-- Returns the position after the first `passed` of these ids; `gone` has those that leave their score.
local function place_behind(ids, passed, from, seen, gone)
  if passed == 0 then
    return from, seen
  end
  local score, same = ids[2 * passed], 0
  for at = 1, passed do
    if ids[2 * at] == score and not (gone and gone[ids[2 * at - 1]]) then
      same = same + 1
    end
  end
  return score, score == from and same + seen or same
end
