-- Keys that are behind their queue are as those that nobody remembers. In: the queue, how far it has come.
-- Index: all of the queue's; done once a round.
delete from punctual_limit_fairness where queue = $1::text and turn <= $2::int8 and key <> ''
