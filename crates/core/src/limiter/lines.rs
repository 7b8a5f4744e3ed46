//! Chooses the jobs that may start from lines of jobs with the same limit.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::Timestamp;

/// The position of a job in the order of claims, smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// See [`ClaimRequest::rank`](crate::ClaimRequest::rank).
    pub rank: u32,
    /// The earliest start time.
    pub run_at: Timestamp,
    /// The order of jobs with the same time.
    pub tie: u128,
}

/// A queue that a claim takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimiter {
    /// The number of jobs that may start.
    pub free: u32,
    /// The turn of the last job that started, where keys take turns. A key that becomes active again begins there.
    pub clock: u64,
}

impl QueueLimiter {
    /// A queue without limits.
    pub const OPEN: Self = Self { free: u32::MAX, clock: 0 };
}

/// Jobs with the same limit: those of one key, or those of a queue without a key. In the order of their starts.
#[derive(Debug, Clone)]
pub struct Line<T> {
    /// The index of the queue.
    pub queue: usize,
    /// The number of jobs that may start.
    pub free: u32,
    /// The turn of the key: within a queue, the smallest comes first.
    pub turn: u64,
    /// How far each start advances the turn.
    pub step: u64,
    /// The jobs.
    pub jobs: VecDeque<(Order, T)>,
}

impl<T> Line<T> {
    /// The sort key of its first job within the queue.
    fn claim(&self) -> Option<(u32, u64, Order)> {
        let (order, _) = self.jobs.front().filter(|_| self.free > 0)?;
        Some((order.rank, self.turn, *order))
    }
}

/// The sort key of the first job of a line, with the number of the line: the smallest is next in its queue.
type Front = Reverse<((u32, u64, Order), usize)>;

/// Chooses at most `limit` jobs to start, in order, each with the number of its line: higher rank first; in a queue
/// whose keys take turns, by turns; then by time. `queues` and `lines` are updated as if these jobs had started.
pub fn choose<T>(queues: &mut [QueueLimiter], lines: &mut [Line<T>], limit: usize) -> Vec<(usize, T)> {
    let mut next: Vec<BinaryHeap<Front>> = queues.iter().map(|_| BinaryHeap::new()).collect();
    for (number, line) in lines.iter().enumerate() {
        next[line.queue].extend(line.claim().map(|claim| Reverse((claim, number))));
    }
    let mut chosen = Vec::new();
    while chosen.len() < limit {
        let fronts = next.iter().enumerate().filter(|(queue, _)| queues[*queue].free > 0);
        let fronts = fronts.filter_map(|(queue, heap)| heap.peek().map(|Reverse(((_, _, order), _))| (*order, queue)));
        let Some((_, queue)) = fronts.min() else { break };
        let Some(Reverse(((_, turn, _), number))) = next[queue].pop() else { break };
        let line = &mut lines[number];
        chosen.extend(line.jobs.pop_front().map(|(_, job)| (number, job)));
        queues[queue].free -= 1;
        queues[queue].clock = queues[queue].clock.max(turn);
        line.free -= 1;
        line.turn += line.step;
        next[queue].extend(line.claim().map(|claim| Reverse((claim, number))));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::TURN, *};

    fn at(millis: u64) -> Timestamp {
        Timestamp::MIN.after(Duration::from_millis(1_000_000 + millis))
    }

    fn line(queue: usize, free: u32, (turn, step): (u64, u64), jobs: &[(u32, u64)]) -> Line<String> {
        let job = |(rank, time): &(u32, u64)| {
            (Order { rank: *rank, run_at: at(*time), tie: 0 }, format!("{queue}:{rank}:{time}"))
        };
        Line { queue, free, turn, step, jobs: jobs.iter().map(job).collect() }
    }

    fn chosen(queues: &mut [QueueLimiter], lines: &mut [Line<String>], limit: usize) -> Vec<String> {
        choose(queues, lines, limit).into_iter().map(|(_, job)| job).collect()
    }

    #[test]
    fn a_full_key_does_not_hold_up_the_others() {
        let mut lines = [
            line(0, 0, (0, 0), &[(1, 0), (1, 1)]),
            line(0, 1, (0, 0), &[(1, 2), (1, 3)]),
            line(0, 5, (0, 0), &[(1, 4), (2, 0)]),
        ];
        assert_eq!(chosen(&mut [QueueLimiter::OPEN], &mut lines, 10), ["0:1:2", "0:1:4", "0:2:0"]);
    }

    #[test]
    fn a_full_queue_does_not_hold_up_the_others() {
        let mut queues = [QueueLimiter { free: 1, clock: 0 }, QueueLimiter::OPEN];
        let mut lines = [line(0, 9, (0, 0), &[(1, 0), (1, 1), (1, 2)]), line(1, 9, (0, 0), &[(1, 5), (2, 0)])];
        assert_eq!(chosen(&mut queues, &mut lines, 10), ["0:1:0", "1:1:5", "1:2:0"]);
        assert_eq!(queues[0].free, 0);
    }

    #[test]
    fn keys_take_turns_by_their_weights() {
        let many: Vec<(u32, u64)> = (0..100).map(|time| (1, time)).collect();
        let late = [(1, 500), (1, 501), (1, 502)];
        let mut queues = [QueueLimiter::OPEN];
        let mut lines = [line(0, 99, (0, TURN / 2), &many), line(0, 99, (0, TURN), &late)];
        let order = chosen(&mut queues, &mut lines, 9);
        assert_eq!(order, ["0:1:0", "0:1:500", "0:1:1", "0:1:2", "0:1:501", "0:1:3", "0:1:4", "0:1:502", "0:1:5"]);
        assert_eq!(queues[0].clock, 2 * TURN + TURN / 2);
    }
}
