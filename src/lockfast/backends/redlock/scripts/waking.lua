-- Tombstones, and wakeups when a name is free.

-- Leaves a tombstone for an attempt of a claim and all before it, so that their late requests get
-- nothing. An existing tombstone is never weakened by a late request of an earlier attempt.
local function bury(claim, standing, attempt)
  local ends = now + math.max(TOMBSTONE, longest)
  local stone = call('HGET', HOLD, '#' .. claim)
  if stone then
    local before, last = string.match(stone, '^(%a) (%d+)$')
    standing = before == 'B' and before or standing
    attempt = int(math.max(tonumber(attempt), tonumber(last)))
  end
  call('HSET', HOLD, 'format', FORMAT, 'gone', '1', '#' .. claim, standing .. ' ' .. attempt)
  call('ZADD', BURIED, int(ends), claim)
  outlive(math.max(token, ends))
  call('PEXPIREAT', BURIED, int(keep))
  local over = call('ZRANGEBYSCORE', BURIED, '-inf', int(now), 'LIMIT', 0, 16)
  for _, old in ipairs(over) do
    call('HDEL', HOLD, '#' .. old)
    call('ZREM', BURIED, old)
  end
end

-- Wakes the claim that has waited longest and still listens, and reserves the name for it for a
-- moment. Otherwise the client that has just released the name, and need not be woken, would take
-- it again and again.
local function wake()
  if shut then
    return
  end
  for _ = 1, 16 do
    local first = call('ZRANGE', WAITING, 0, 0)[1]
    if not first then
      break
    end
    call('ZREM', WAITING, first)
    local inbox, claim = string.match(first, '^(%S+) (%S+)$')
    local heard = redis.pcall('PUBLISH', string.match(HOLD, '^[^{]*') .. 'inbox:' .. inbox, claim)
    if heard == 1 then
      call('HSET', HOLD, 'turn', claim .. ' ' .. int(now + TURN))
      return
    end
  end
end
