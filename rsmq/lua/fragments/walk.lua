-- A walk through a queue in steps, so that none blocks the server, however long the queue is.
--
-- A place is a score and how many ids of just that score lie behind; the first place is '-inf', 0.

-- The next ids from a place on, with scores, at most `most`; those up to the score `to`.
local function next_ids(zset, from, seen, to, most)
  return redis.call('ZRANGEBYSCORE', zset, from, to, 'WITHSCORES', 'LIMIT', seen, most)
end

-- The place behind the first `passed` of these ids; `gone` names those that are there no more.
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
