-- A job takes a unique key, perhaps from one that is no longer in the way. In: scope, key, job, until when. Index: primary key.
update punctual_keys set job = @P3, expires_at = @P4 where scope = @P1 and hash = hashbytes('sha2_256', @P2);
if @@rowcount = 0 insert into punctual_keys (scope, [key], job, expires_at) values (@P1, @P2, @P3, @P4)
