-- Keys that are behind their queue are as those that nobody remembers. In: queue, turn. Index: all of the queue's; done once a round.
delete from punctual_limit_fairness where queue = ?1 and turn <= ?2 and key <> ''
