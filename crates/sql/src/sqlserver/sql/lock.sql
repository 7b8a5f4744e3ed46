-- Takes a lock that is free, expired or the owner's own. In: name, owner, now, until. Out: its token, or no row.
update punctual_locks set owner = @P2, token = token + 1, expires_at = @P4 output inserted.token
where name = @P1 and (owner is null or owner = @P2 or expires_at <= @P3);
if @@rowcount = 0 insert into punctual_locks (name, owner, token, expires_at) output inserted.token
select @P1, @P2, 1, @P4 where not exists (select 1 from punctual_locks where name = @P1)
