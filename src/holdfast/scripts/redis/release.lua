#!lua flags=allow-oom
-- Ends the claim's hold and admits the next; never ends another claim's.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 tombstone (1, 0): one of its requests may still come
-- → 1 released, 0 it was not held any more

-- include opening.lua

local known = open(1, ARGV[1])
local ends = known and tonumber(call('ZSCORE', ENDS, ARGV[1]))
local holds = ends and ends > now and string.sub(known, 1, 1) == 'H'
if holds and arrivals == 0 and ARGV[2] == '0' then
  local weight = string.match(known, '^H %d+ %d+ (%d+) %d+ %d+ 0 %- ')
  if weight then
    -- Nobody waits, nothing stays closed: the way of an uncontended lock.
    call('HDEL', DOOR, '#' .. ARGV[1])
    call('HSET', DOOR, 'used', int(used - weight))
    call('ZREM', ENDS, ARGV[1])
    return 1
  end
end

-- include door.lua

if holds then
  local place = place_of(ARGV[1], known)
  finish(place, math.min(place.since, now) + place.hold)
  if ARGV[2] == '1' then
    bury(place, 'G')
  end
end
settle()
save()
return holds and 1 or 0
