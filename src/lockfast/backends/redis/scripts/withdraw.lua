#!lua flags=allow-oom
-- Makes sure that the claim neither holds nor waits; with a tombstone, a late request is refused, too.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 tombstone (1, 0)  3 ttl
-- → 0

-- include opening.lua

local known = open(1, ARGV[1])
if known and string.match(known, '^[GB]') then
  return 0
end
if not known and not solo and ARGV[2] == '0' and arrivals == 0 then
  return 0
end
clear_leftovers()

-- include door.lua

known = unfold(ARGV[1]) or known
local place = place_of(ARGV[1], known)
if place then
  drop(place)
end
if ARGV[2] == '1' then
  bury(place or place_of(ARGV[1], 'G 0 0 0 ' .. ARGV[3] .. ' 0 0 - - '), 'G')
end
settle()
save()
return 0
