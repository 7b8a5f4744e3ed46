-- A process that claims jobs cannot reach the dispatcher.
update punctual_dispatch set unreachable_at = clock_timestamp()
