-- Keys that are behind their queue are as those that nobody remembers. In: queue, turn. Index: a range of punctual_turns_turn.
delete from punctual_turns where queue = ?1 and turn <= ?2 and key <> ''
