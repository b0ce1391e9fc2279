#!lua flags=allow-oom
-- Ends holds on an operator's request, some at a time; each stays closed for its lock_delay.
-- KEYS door ends line gone kin
-- ARGV 1 how many claims inside to skip, because they do not hold or do not match
--      2 the token that the hold must have, or empty  3 its explicit owner, or empty
-- → {now, where to continue or -1, deadlines and records of the broken holds...}

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
      drop(place) -- no tombstone, because its client may not have answered yet and will ask again
    end
  else
    skipped = skipped + 1
  end
end
settle()
save()
return {now, #some == 2 * STEPS and skipped or -1, unpack(list)}
