-- The dispatcher has been informed of jobs that wait for a time up to this one. In: the time that was so until now (or null), the new one.
update punctual_dispatch set due_until = $2::timestamptz where due_until is not distinct from $1::timestamptz
