-- Reads a door, as every verb does first. The keys of a name are adjacent in KEYS:
--   door  hash: format, capacity, token (the last granted), keep (when the keys expire, ms), used (the
--         weight inside), arrivals (only while claims wait), gone (only while there are tombstones),
--         doubt (a waiting client not heard since then is dead), epoch (the last given to a waiting
--         client), lost (clients of this epoch or an earlier one have lost their places),
--         #<claim>: its record, @<client>: the record of a waiting client,
--         solo: <claim> <deadline> <record> of a claim that was granted at an empty door
--   ends  zset: claims inside, by deadline       line  zset: waiting claims, by arrival
--   gone  zset: tombstones, by deadline          kin   zset: the claims of explicit owners
-- Most locks are held by one claim and requested by no other. Such a hold is stored in the field
-- solo alone. A verb that cannot work with that form first unfolds it into the keys and fields that
-- door.lua works on.
-- The server may evict any of these keys and keep the others. So where a refusal or a grant depends
-- on a count (used, arrivals, gone, a client's `waiting`, an owner's weight in kin), every verb
-- checks what is counted, and a client that lost its places learns this from its next heartbeat.
-- Times are µs of the server's clock. Use int() to make a number text; tostring() rounds.
local FORMAT = '1'
local DAY, HOUR = 86400000, 3600000
local LONGEST = 604800000000 -- a week, as in options.py
local call = redis.call
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local DOOR, ENDS, LINE, GONE, KIN
local asked, found, capacity, token, keep, used, arrivals, solo, last_epoch, lost

local function int(number)
  return string.format('%.0f', number)
end

-- Times are capped, because the server would refuse a time that is too far off, in the middle of a
-- verb, and leave keys without an expiry.
local function span(text)
  return math.min(tonumber(text), LONGEST)
end

-- → the claim's record as it was found, or false
local function open(first, claim)
  DOOR, ENDS, LINE, GONE, KIN = unpack(KEYS, first, first + 4)
  asked = claim
  found = call('HMGET', DOOR, 'format', 'capacity', 'token', 'keep', 'used', 'arrivals', 'gone', 'solo', '#' .. claim,
    'epoch', 'lost')
  if found[1] and found[1] ~= FORMAT then
    error({err = 'LOCKFAST_FORMAT ' .. found[1]})
  end
  capacity, token, keep = tonumber(found[2]) or 0, tonumber(found[3]) or 0, tonumber(found[4]) or 0
  used, arrivals, solo = tonumber(found[5]) or 0, tonumber(found[6]) or 0, found[8]
  last_epoch, lost = tonumber(found[10]) or 0, tonumber(found[11]) or 0
  return found[9]
end

-- A name's keys outlive its last token and all its deadlines by a day. The day counts from the
-- token and not from the last use, because otherwise tokens could go back after a clock had jumped
-- ahead. The keys get an hour more than needed, so that a busy name seldom has to set the expiry
-- again.
local function outlive(moment)
  local needed = math.ceil(moment / 1000) + DAY
  if needed <= keep then
    return false
  end
  keep = needed + HOUR
  return true
end

local function is_empty()
  return not solo and used == 0 and arrivals == 0
end

-- The same for a solo hold, which has only its door, and perhaps tombstones.
local function outlive_solo(moment)
  if outlive(moment) then
    call('HSET', DOOR, 'format', FORMAT, 'keep', int(keep))
    call('PEXPIREAT', DOOR, int(keep))
    call('PEXPIREAT', GONE, int(keep))
  end
end

-- Deletes what is left if the server evicted only the door, because the other keys mean nothing
-- without it.
local function clear_leftovers()
  if keep == 0 then
    call('UNLINK', ENDS, LINE, GONE, KIN)
  end
end

-- Grants a claim at an empty door → its token. This is the path of an uncontended lock.
local function enter_solo(claim, size, details)
  clear_leftovers()
  -- Each number is converted once, because a conversion costs as much as a command.
  local since, ends = int(now), now + span(string.match(details, '^%d+ (%d+) '))
  local given = token < now and since or int(token + 1)
  token = math.max(token + 1, now)
  call('HSET', DOOR, 'capacity', size, 'token', given,
    'solo', claim .. ' ' .. int(ends) .. ' H ' .. since .. ' ' .. given .. ' ' .. details)
  outlive_solo(math.max(token, ends))
  return token
end
