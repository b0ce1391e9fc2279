#!lua flags=no-writes
-- Reports on a name, a page of the claims inside and of its line at a time; changes nothing.
-- KEYS door ends line gone kin
-- ARGV 1 the arrival after which the page of the line begins  2 the deadline from which the page
--      of the claims inside begins, -inf at first; a renewed hold only moves to a later page
-- → {now, capacity, token, inside (the number of items), deadline, claim and record of each claim
--   inside..., then arrival and record of each waiting claim}

-- include opening.lua

open(1, '')

-- include door.lua

local list = {now, capacity, token, 0}

local function show(ends, claim, record)
  if record then
    list[#list + 1], list[#list + 2], list[#list + 3] = ends, claim, record
  end
end

if solo then
  if ARGV[2] == '-inf' then
    local claim, ends, record = string.match(solo, '^(%S+) (%d+) (.*)$')
    show(ends, claim, record)
  end
else
  local some = call('ZRANGEBYSCORE', ENDS, ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, SHOWN)
  for i = 1, #some, 2 do
    show(some[i + 1], some[i], get('#' .. some[i]))
  end
end
list[4] = #list - 4
local page = call('ZRANGEBYSCORE', LINE, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, STEPS)
for i = 1, #page, 2 do
  local place = find(page[i])
  list[#list + 1] = page[i + 1]
  list[#list + 1] = (not place or is_void(place)) and '' or get('#' .. page[i])
end
return list
