-- The schema is up to date.
exec sp_releaseapplock @Resource = 'punctual schema', @LockOwner = 'Session'
