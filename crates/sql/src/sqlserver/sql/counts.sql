-- How many jobs there are. Reads the whole table: one row for each queue, name and status in use, and what has come since these were added up.
select queue, name, status, sum(n) from punctual_counts group by queue, name, status having sum(n) > 0
