#!lua flags=allow-oom
-- Lets the claim's token be a larger one, which another node gave; only if the claim has the name.
-- KEYS hold buried waiting node
-- ARGV 1 claim  2 token
-- → {now, counts, 1 or 0} | {-1}

-- include opening.lua

if not held or held.claim ~= ARGV[1] then
  return {now, counts, 0}
end
held.token = math.max(held.token, tonumber(ARGV[2])) -- it may come late, after a larger one
token = math.max(token, held.token)
lift(token)
call('HSET', HOLD, 'token', int(token))
write()
outlive(token)
return {now, counts, 1}
