#!lua
-- Grants a claim the name on this node, or reports who has it; a repeat sets a new deadline.
-- KEYS hold buried waiting node
-- ARGV 1 claim  2 attempt  3 ttl  4 min_hold  5 floor: the smallest token to grant
--      6 inbox, empty if it is not to be woken  7 for how long it has waited
--      8 whether the first node has granted it already (1, 0)  9 owner
-- → {now, counts, 1, token}: granted | {now, counts, 2, token}: granted before
--   | {now, counts, 0, claim, owner, token, since, ends, shut}: refused; claim is empty if
--   nobody has it
--   | {-1}: this node has forgotten its birth

-- include opening.lua

local MOST_AHEAD = 10000000 -- as in core/quorum.py

local me, attempt = ARGV[1], tonumber(ARGV[2])
local least = tonumber(node[3]) or 0
local is_late = false
if found[7] then
  local stone = call('HGET', HOLD, '#' .. me)
  is_late = stone and tonumber(string.match(stone, '%d+')) >= attempt
end

if held and held.claim == me and not is_late then
  held.ends, held.attempt = now + tonumber(ARGV[3]), math.max(held.attempt, attempt)
  if held.token <= least then
    -- The hold was granted before this node was taught, so its token may be smaller than one that
    -- others have used.
    token = math.max(token + 1, now, least + 1)
    held.token = token
    lift(token)
    call('HSET', HOLD, 'token', int(token))
  end
  write()
  outlive(held.ends)
  return {now, counts, 2, held.token}
end

local is_others_turn = false
if found[6] and ARGV[8] == '0' then
  local whose, ends = string.match(found[6], '^(%S+) (%d+)$')
  is_others_turn = whose ~= me and tonumber(ends) > now and tonumber(ends) <= now + TURN
end

if held or shut or is_others_turn or is_late then
  if held and held.is_cut then
    write()
  elseif shut and shut.is_cut then
    -- Store the shortened deadline. Otherwise each request would shorten it again from its own
    -- time, and the name would stay closed for as long as the clock is behind.
    call('HDEL', HOLD, 'hold')
    call('HSET', HOLD, 'shut', int(shut.ends) .. ' ' .. shut.owner)
  end
  if ARGV[6] ~= '' and not is_late then
    call('ZADD', WAITING, 'NX', int(now - tonumber(ARGV[7])), ARGV[6] .. ' ' .. me)
    call('PEXPIRE', WAITING, 3600000)
  end
  local one = held or {claim = '', owner = '', token = 0, since = 0, ends = 0}
  if shut then
    one.owner = shut.owner
  end
  return {now, counts, 0, one.claim, one.owner, one.token, one.since, one.ends, shut and shut.ends or 0}
end

local floor = tonumber(ARGV[5])
if floor > now + MOST_AHEAD then
  floor = 0
end
token = math.max(token + 1, now, floor, least + 1)
lift(token)
held = {
  claim = me, attempt = attempt, since = now, ends = now + tonumber(ARGV[3]), token = token,
  min_hold = tonumber(ARGV[4]), owner = ARGV[9],
}
call('HSET', HOLD, 'token', int(token))
write()
outlive(math.max(token, held.ends, held.since + held.min_hold))
if found[5] then
  call('HDEL', HOLD, 'shut')
end
if found[6] then
  call('HDEL', HOLD, 'turn')
end
if ARGV[6] ~= '' then
  call('ZREM', WAITING, ARGV[6] .. ' ' .. me)
end
return {now, counts, 1, token}
