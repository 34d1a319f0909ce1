//! scratch
mod support;
use howdah_core::Span;
use support::hand::Hand;
use support::{at, config, ms, secs};
#[test]
fn trace() {
    let mut hand = Hand::new(config(), config(), ms(20));
    hand.transfer(true, 1000);
    hand.run(
        at(secs(2)),
        |h| h.server.placed == 1000,
        |now, p| {
            println!(
                "{now} {} #{} len {} {}",
                if p.to_server { "->" } else { "<-" },
                p.index,
                p.len(),
                p.describe()
            );
            if (1..4).contains(&p.index) {
                println!("   LOST");
                vec![]
            } else {
                vec![Span::ZERO]
            }
        },
    );
}
