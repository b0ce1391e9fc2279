#!lua flags=allow-oom
-- Ends the claim's hold and admits the next; never ends another claim's.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 tombstone (1, 0): one of its requests may still come
-- → 1 released, 0 it was not held any more

-- The way of an uncontended lock, before anything is defined that only others need: nobody waits,
-- and nothing stays closed after it.
do
  local door = redis.call('HMGET', KEYS[1], 'format', 'solo')
  if door[1] == '1' and door[2] and ARGV[2] == '0' then
    local claim, ends = string.match(door[2], '^(%S+) (%d+) H %d+ %d+ %d+ %d+ %d+ 0 ')
    local time = redis.call('TIME')
    if claim == ARGV[1] and tonumber(ends) > time[1] * 1000000 + time[2] then
      redis.call('HDEL', KEYS[1], 'solo')
      return 1
    end
  end
end

-- include opening.lua

local known = open(1, ARGV[1])

-- include door.lua

known = unfold(ARGV[1]) or known
local ends = known and tonumber(call('ZSCORE', ENDS, ARGV[1]))
local holds = ends and ends > now and string.match(known, '^[HA]')
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
