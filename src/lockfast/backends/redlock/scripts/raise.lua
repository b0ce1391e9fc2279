#!lua flags=allow-oom
-- Raises the claim's token to a larger one, which another node granted, if the claim has the name.
-- KEYS hold buried waiting node
-- ARGV 1 claim  2 token
-- → {now, counts, 1 or 0} | {-1}

-- include opening.lua

if not held or held.claim ~= ARGV[1] then
  return {now, counts, 0}
end
held.token = math.max(held.token, tonumber(ARGV[2])) -- this request may come late, after a larger token
token = math.max(token, held.token)
lift(token)
call('HSET', HOLD, 'token', int(token))
write()
outlive(token)
return {now, counts, 1}
