#!lua flags=allow-oom
-- Ends the claim's hold and admits the next; never ends another claim's hold.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 tombstone (1, 0), if one of its requests may still come
-- → 1 released, 0 no longer held

-- The fast path of an uncontended lock, for which no claim waits and which leaves nothing closed.
-- It runs before anything is defined that only the other paths need.
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

-- The fast path where others wait, with the result that `settle` in door.lua would have: the first
-- in line replaces the only claim inside, if both are plain and the waiting client was heard
-- recently.
do
  local claim = '#' .. ARGV[1]
  local door = redis.call('HMGET', KEYS[1], 'format', 'capacity', 'used', 'token', 'keep', 'gone', 'doubt', claim)
  if ARGV[2] == '0' and door[1] == '1' and door[2] == '1' and door[3] == '1' and not door[6] and not door[7]
    and door[8] and string.find(door[8], '^[HA] %d+ %d+ 1 %d+ %d+ 0 %- ') then
    local line = redis.call('ZRANGE', KEYS[3], 0, 1)
    local record = line[1] and redis.call('HGET', KEYS[1], '#' .. line[1])
    local epoch, details, client = string.match(record or '', '^W (%d+) %d+ (1 %d+ %d+ %d+ %- (%S+) .*)$')
    local text = client and redis.call('HGET', KEYS[1], '@' .. client)
    local current, heard, waiting, inbox = string.match(text or '', '^(%d+) (%d+) (%d+) (.*)$')
    local ends = epoch and epoch == current and redis.call('ZSCORE', KEYS[2], ARGV[1])
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    if ends and tonumber(ends) > now and tonumber(door[4]) < now and math.abs(now - heard) <= 7000000
      and math.ceil((now + 2500000) / 1000) + 86400000 <= tonumber(door[5]) then
      local given = string.format('%.0f', now)
      local set, cut = {'token', given, '#' .. line[1], 'A ' .. given .. ' ' .. given .. ' ' .. details}, {claim}
      if waiting == '1' then
        cut[2] = '@' .. client
      else
        set[5], set[6] = '@' .. client, epoch .. ' ' .. heard .. string.format(' %.0f ', waiting - 1) .. inbox
      end
      if not line[2] then
        set[#set + 1], set[#set + 2] = 'arrivals', '0'
      end
      redis.call('HSET', KEYS[1], unpack(set))
      redis.call('HDEL', KEYS[1], unpack(cut))
      redis.call('ZADD', KEYS[2], string.format('%.0f', now + 2500000), line[1]) -- before the ZREM: the key must not vanish
      redis.call('ZREM', KEYS[2], ARGV[1])
      redis.call('ZREM', KEYS[3], line[1])
      redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. 'inbox:' .. inbox, line[1] .. ' ' .. given)
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
