#!lua flags=no-writes
-- Reports on a name; changes nothing.
-- KEYS hold buried waiting node
-- → {now, counts, the last token, claim, owner, token, since, ends, shut} | {-1}

-- include opening.lua

local one = held or {claim = '', owner = '', token = 0, since = 0, ends = 0}
if shut then
  one.owner = shut.owner
end
return {now, counts, token, one.claim, one.owner, one.token, one.since, one.ends, shut and shut.ends or 0}
