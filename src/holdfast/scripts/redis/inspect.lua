#!lua flags=no-writes
-- Tells of a name, a page of its line at a time; changes nothing.
-- KEYS door ends line gone kin
-- ARGV 1 the arrival after which the page begins
-- → {now, capacity, token, inside (the number of items), inside..., then arrival and record of each who waits}

-- include opening.lua

open(1, '')

-- include door.lua

local shown = inside()
local list = {now, capacity, token, #shown}
for _, item in ipairs(shown) do
  list[#list + 1] = item
end
local page = call('ZRANGEBYSCORE', LINE, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, STEPS)
for i = 1, #page, 2 do
  local place = find(page[i])
  list[#list + 1] = page[i + 1]
  list[#list + 1] = (not place or is_void(place)) and '' or get('#' .. page[i])
end
return list
