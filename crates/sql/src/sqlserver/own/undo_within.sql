-- Takes back what an operation did within a transaction of an application's own. Out: 1 if the transaction goes on.
if xact_state() = 1 rollback transaction punctual;
select xact_state()
