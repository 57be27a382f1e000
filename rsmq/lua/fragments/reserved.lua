-- Ids in a queue that are names of attributes, which some program has added. Their fields are not
-- bodies: such ids are never delivered, and only the ids are removed.

-- Only ids of less than ten characters and ids that begin with an x, whose byte is 120, can be
-- reserved. Callers with many ids check that first, to save time.
local function is_reserved(id)
  return id == 'vt' or id == 'delay' or id == 'maxsize' or id == 'totalrecv' or id == 'totalsent'
    or id == 'created' or id == 'modified' or string.sub(id, 1, 2) == 'x:'
end
