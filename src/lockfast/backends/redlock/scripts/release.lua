#!lua flags=allow-oom
-- Ends the claim's hold and wakes the next waiter; never ends another claim's hold.
-- KEYS hold buried waiting node
-- ARGV 1 claim  2 the last attempt that a tombstone is for, or empty
-- → {now, counts, 1 released, 0 no longer held} | {-1}

-- include opening.lua

-- include waking.lua

local was_ours = held and held.claim == ARGV[1]
if was_ours then
  call('HDEL', HOLD, 'hold')
  local ends = math.min(held.since, now) + held.min_hold
  if ends > now then
    shut = {ends = ends, owner = held.owner}
    call('HSET', HOLD, 'shut', int(ends) .. ' ' .. held.owner)
  end
end
if ARGV[2] ~= '' then
  bury(ARGV[1], 'G', ARGV[2])
end
if was_ours then
  wake()
end
return {now, counts, was_ours and 1 or 0}
