-- Keys that are behind their queue are as those that nobody remembers. In: queue, turn. Index: all of the queue's; done once a round.
delete from punctual_limit_fairness where queue = @P1 and turn <= @P2 and [key] <> ''
