-- What every verb does first, on one of the nodes. Keys:
--   hold  hash: format, token (the last given), keep (when the keys vanish, ms), hold: the claim
--         that has the name here, shut: until when it stays closed after that, and after whom,
--         turn: who was woken last and goes first for a moment, gone (only while there are
--         tombstones), #<claim>: its tombstone
--   buried  zset: tombstones, by deadline   waiting  zset: who is to be woken, by since when
--   node  hash, one for all names: birth, run, counts, least, ceiling, max, nodes, durable, origin;
--         see enrol.lua
-- Times are µs of the node's clock. A number becomes text by int(): tostring() rounds.
local BIRTH = '@birth@'
local FORMAT = '1'
local DAY, HOUR = 86400000, 3600000
local TOMBSTONE, TURN = 60000000, 50000
local HOLD, BURIED, WAITING, NODE = unpack(KEYS)
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function int(number)
  return string.format('%.0f', number)
end

-- A node that was flushed has forgotten its birth along with what it granted.
local node = call('HMGET', NODE, 'birth', 'counts', 'least', 'ceiling', 'max')
if node[1] ~= BIRTH then
  return {-1}
end
local counts, longest = tonumber(node[2]), tonumber(node[5])

local found = call('HMGET', HOLD, 'format', 'token', 'keep', 'hold', 'shut', 'turn', 'gone')
if found[1] and found[1] ~= FORMAT then
  error({err = 'LOCKFAST_FORMAT ' .. found[1]})
end
local token, keep = tonumber(found[2]) or 0, tonumber(found[3]) or 0

-- A record: claim attempt since ends token min_hold owner. What ends further off than anything
-- can was set before the clock was put back: it counts anew from here, which is later than its
-- holder can believe in it. The request that is refused by such a deadline writes it down, of a hold
-- and of what stays closed after one, see acquire.lua: here it would keep those from looking who must
-- not write.
local held, shut
if found[4] then
  local claim, attempt, since, ends, given, min_hold, owner =
    string.match(found[4], '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  held = {
    claim = claim, attempt = tonumber(attempt), since = tonumber(since), ends = tonumber(ends),
    token = tonumber(given), min_hold = tonumber(min_hold), owner = owner,
  }
  if held.ends > now + longest then
    held.since, held.ends, held.is_cut = now, now + longest, true
  end
  if held.ends <= now then
    if held.min_hold > 0 and held.since + held.min_hold > now then
      shut = {ends = held.since + held.min_hold, owner = held.owner}
    end
    held = nil
  end
end
if not held and found[5] then
  local ends, owner = string.match(found[5], '^(%d+) (.*)$')
  shut = {ends = tonumber(ends), owner = owner}
end
if shut then
  if shut.ends > now + longest then
    shut.ends, shut.is_cut = now + longest, true
  end
  if shut.ends <= now then
    shut = nil
  end
end

-- The keys of a name outlive by a day its last token and whatever else ends; see the scripts of
-- a single Redis.
local function outlive(moment)
  local needed = math.ceil(moment / 1000) + DAY
  if needed > keep then
    keep = needed + HOUR
    call('HSET', HOLD, 'format', FORMAT, 'keep', int(keep))
    call('PEXPIREAT', HOLD, int(keep))
  end
end

local function write()
  call('HSET', HOLD, 'hold', held.claim .. ' ' .. int(held.attempt) .. ' ' .. int(held.since) .. ' '
    .. int(held.ends) .. ' ' .. int(held.token) .. ' ' .. int(held.min_hold) .. ' ' .. held.owner)
end

-- No token that this node ever knew is above its ceiling, of whichever name. It is said a second
-- ahead, so that it need not be said for each.
local function lift(given)
  if given > (tonumber(node[4]) or 0) then
    call('HSET', NODE, 'ceiling', int(given + 1000000))
  end
end
