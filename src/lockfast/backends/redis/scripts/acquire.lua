#!lua
-- Grants, or reports who is in the way; a repeat keeps its place, or its hold with a new deadline.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 capacity  3 inbox, empty to join no line
--      4 weight ttl delay hold party client owner, as in the record
-- → token | {0, capacity in use} if it is not the requested one
--   | {now, place or 0, epoch or 0, the last token granted to any claim, inside...}

-- The fast path of an uncontended lock. This path does what enter_solo does, at a door that was used
-- before and whose keys last long enough, but defines no functions. Without it, acquiring and
-- releasing takes 42 µs of the server's time instead of 30 (Redis 7.0, November 2026).
do
  local door = redis.call('HMGET', KEYS[1], 'format', 'token', 'keep', 'used', 'arrivals', 'solo', '#' .. ARGV[1])
  local ttl, party = string.match(ARGV[4], '^%d+ (%d+) %d+ %d+ (%S+) ')
  if door[1] == '1' and door[2] and door[3] and (door[4] or '0') == '0' and (door[5] or '0') == '0'
    and not door[6] and not door[7] and party == '-' then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local ends = now + math.min(ttl, 604800000000)
    if tonumber(door[2]) < now and math.ceil(ends / 1000) + 86400000 <= tonumber(door[3]) then
      local given = string.format('%.0f', now)
      redis.call('HSET', KEYS[1], 'capacity', ARGV[2], 'token', given,
        'solo', ARGV[1] .. string.format(' %.0f H ', ends) .. given .. ' ' .. given .. ' ' .. ARGV[4])
      return now
    end
  end

  -- The fast path for joining a line in which others wait already. Only one claim may be inside,
  -- that claim and this one must be plain, and no other claim of this client may be waiting there.
  local client = string.match(ARGV[4], '^1 %d+ %d+ %d+ %- (%S+) ')
  if client and ARGV[2] == '1' and ARGV[3] ~= '' and door[1] == '1' and door[4] == '1' and (door[5] or '0') ~= '0'
    and not door[6] and not door[7] then
    local more = redis.call('HMGET', KEYS[1], 'capacity', 'gone', '@' .. client, 'epoch')
    local inside = redis.call('ZRANGE', KEYS[2], 0, 1, 'WITHSCORES')
    local record = inside[1] and not inside[3] and redis.call('HGET', KEYS[1], '#' .. inside[1])
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local left = (tonumber(inside[2]) or 0) - now
    if more[1] == '1' and not more[2] and not more[3] and left > 0 and left <= 60000000
      and (tonumber(more[4]) or 0) <= now
      and record and string.find(record, '^[HA] %d+ %d+ %d+ %d+ %d+ %d+ %- ')
      and math.ceil(math.max(tonumber(door[2]), now) / 1000) + 86400000 <= tonumber(door[3]) then
      local came, number = string.format('%.0f', now), string.format('%.0f', door[5] + 1)
      redis.call('ZADD', KEYS[3], number, ARGV[1])
      local ahead = redis.call('ZRANK', KEYS[3], ARGV[1])
      if ahead > 0 then
        redis.call('HSET', KEYS[1], 'arrivals', number, 'epoch', came,
          '#' .. ARGV[1], 'W ' .. came .. ' ' .. came .. ' ' .. ARGV[4],
          '@' .. client, came .. ' ' .. came .. ' 1 ' .. ARGV[3])
        return {now, ahead + 1, now, tonumber(door[2]), inside[2], record}
      end
      redis.call('ZREM', KEYS[3], ARGV[1]) -- the line was evicted; see lose_line in door.lua
    end
  end
end

-- include opening.lua

local known = open(1, ARGV[1])
local party = string.match(ARGV[4], '^%d+ %d+ %d+ %d+ (%S+) ')
if not known and party == '-' and is_empty() then
  return enter_solo(ARGV[1], ARGV[2], ARGV[4]) -- before the rest is even defined
end
clear_leftovers()

-- include door.lua

known = unfold(ARGV[1]) or known
local asking = place_of(ARGV[1], 'W 0 0 ' .. ARGV[4])
local ttl = asking.ttl
if known and ARGV[3] ~= '' then
  hear(asking.client, ARGV[3]) -- the client is alive, so its claims are not void for silence
end
settle()

local place = find(ARGV[1])
local rank, epoch = 0, 0
if place and place.standing == 'W' then
  rank, epoch = (call('ZRANK', LINE, place.id) or -1) + 1, place.since
  if rank == 0 or is_void(place) then
    drop(place)
    place, rank, epoch = nil, 0, 0
  end
end

if place and (place.standing == 'H' or place.standing == 'A') then
  -- Set a new deadline in the same step, because the client counts its trust from this request, and
  -- the store must count from it too.
  local was_evicted = call('ZADD', ENDS, int(now + ttl), place.id) == 1
  if not was_evicted then
    if place.standing == 'A' then
      place.standing, place.since = 'H', now
      write(place)
    end
    outlive(now + ttl)
    dirty = true
    let_kin_pass(place.party)
    save()
    return place.token
  end
  -- This claim was evicted and is no longer counted, so another may have been let in since.
  call('ZREM', ENDS, place.id)
  erase(place)
  place = nil
end

if not place then
  local is_waiting = somebody_waits()
  if tonumber(ARGV[2]) ~= capacity then
    if used > 0 or is_waiting then
      save()
      return {0, capacity}
    end
    capacity = tonumber(ARGV[2])
  end
  local held = asking.party == '-' and 0 or heaviest(asking.party)
  if asking.party ~= '-' and held == 0 and used > 0 then
    held = recount(asking.party)
  end
  if (held > 0 and asking.weight <= held) or (not is_waiting and asking.weight - held <= capacity - used) then
    enter(asking, 'H', now + ttl)
    let_kin_pass(asking.party)
    save()
    return asking.token
  end
  if ARGV[3] ~= '' then
    join(asking, ARGV[3])
    rank, epoch = call('ZRANK', LINE, asking.id) + 1, asking.since
  end
end

save()
return {now, rank, epoch, token, unpack(inside())}
