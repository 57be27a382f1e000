-- Ids that some program has put into a queue and that are names of attributes. Their fields are no bodies:
-- such ids are never delivered, and only the ids are removed.

-- Ids of less than ten characters and those that begin with 'x:' may be such; whoever asks for many looks
-- at that first.
local function is_reserved(id)
  return id == 'vt' or id == 'delay' or id == 'maxsize' or id == 'totalrecv' or id == 'totalsent'
    or id == 'created' or id == 'modified' or string.sub(id, 1, 2) == 'x:'
end
