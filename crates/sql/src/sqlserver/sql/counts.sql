-- How many jobs there are. Reads the whole table: one row for each queue, name and status in use.
select queue, name, status, n from punctual_counts where n > 0
