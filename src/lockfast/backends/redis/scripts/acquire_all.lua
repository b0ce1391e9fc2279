#!lua
-- Grants several names to a client that wants all of them, if all their doors are empty.
-- KEYS door ends line gone kin, for each name
-- ARGV 1 capacity  2... claim and details for each name, as in acquire
-- → the token of each; or 0 if nothing was done, and the client has to ask for them one by one

-- include opening.lua

for i = 2, #ARGV, 2 do
  if open(5 * (i / 2 - 1) + 1, ARGV[i]) or not is_empty() then
    return 0
  end
end
local tokens = {}
for i = 2, #ARGV, 2 do
  open(5 * (i / 2 - 1) + 1, ARGV[i])
  tokens[#tokens + 1] = enter_solo(ARGV[i], ARGV[1], ARGV[i + 1])
end
return tokens
