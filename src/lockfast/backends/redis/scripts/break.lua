#!lua flags=allow-oom
-- Ends holds by an operator's hand, some at a time; each leaves its lock_delay closed.
-- KEYS door ends line gone kin
-- ARGV 1 how many of those inside to pass over: they do not hold, or are not meant
--      2 the token by which it must be held, or nothing  3 the explicit owner, or nothing
-- → {now, where to go on or -1, deadlines and records of the broken...}

-- include opening.lua

open(1, '')

-- include door.lua

unfold('')
settle()
local skipped = tonumber(ARGV[1])
local list = {}
local some = call('ZRANGE', ENDS, skipped, skipped + STEPS - 1, 'WITHSCORES')
for i = 1, #some, 2 do
  local place = find(some[i])
  local is_meant = place and (place.standing == 'H' or place.standing == 'A')
    and (ARGV[2] == '' or place.token == tonumber(ARGV[2]))
    and (ARGV[3] == '' or place.party == ARGV[3])
  if is_meant then
    list[#list + 1] = some[i + 1]
    list[#list + 1] = get('#' .. place.id)
    if place.standing == 'H' then
      finish(place, now + place.delay)
      bury(place, 'B')
    else
      drop(place) -- no tombstone: it may not have answered yet, and then it asks again
    end
  else
    skipped = skipped + 1
  end
end
settle()
save()
return {now, #some == 2 * STEPS and skipped or -1, unpack(list)}
