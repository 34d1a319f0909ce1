//! Queues and budgets by themselves; `howdah-fuzz` tries how threads meet in them.

use super::queue::{Budget, Queue};

#[test]
fn a_closed_queue_gives_what_it_has_and_a_stopped_one_nothing() {
    let queue = Queue::new(2);
    queue.push(1).unwrap();
    queue.push(2).unwrap();
    assert!(queue.is_full());
    queue.close();
    assert_eq!(queue.push(3), Err(3));
    assert_eq!(
        (queue.pop(), queue.pop(), queue.pop()),
        (Some(1), Some(2), None)
    );
    let queue = Queue::new(2);
    queue.push(1).unwrap();
    queue.stop();
    assert_eq!((queue.pop(), queue.push(2)), (None, Err(2)));
}

#[test]
fn a_budget_lets_the_largest_through_alone() {
    let budget = Budget::new(10);
    assert!(budget.acquire(100));
    assert!(budget.is_short_of(1));
    budget.release(100);
    assert!(budget.acquire(10));
    budget.release(10);
    assert!(budget.wait_until_unused());
    budget.stop();
    assert!(!budget.acquire(1));
}
