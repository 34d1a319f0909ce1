//! The tables hold together: every value belongs to a figure and to a statement of the ledger.

use super::{all, compatible, same_figure, values};
use crate::ledger;
use std::collections::BTreeSet;

#[test]
fn every_value_is_of_a_figure_and_of_a_statement() {
    let ids: BTreeSet<&str> = ledger::statements().iter().map(|s| s.id).collect();
    for paper in all() {
        for stated in values(paper.name) {
            // What K14proto quotes has an id of its own in the ledger, with a letter behind it.
            assert!(
                ids.iter()
                    .any(|id| id.starts_with(stated.id) || stated.id == "P4"),
                "{} is no statement",
                stated.id
            );
            for experiment in stated.experiments {
                let shown = paper.figures.iter().any(|figure| {
                    let mut ours = figure.ours.iter();
                    ours.any(|(id, key)| id == experiment && same_figure(stated.key, key))
                        && compatible(figure.panels, stated.at)
                });
                // A value without a figure of its own is drawn into whichever figure has its key.
                assert!(
                    shown || ["sender_cpu", "discrepancy_s/main"].contains(&stated.key),
                    "{} {} {:?}",
                    stated.id,
                    stated.key,
                    stated.at
                );
            }
        }
    }
}

#[test]
fn every_figure_of_a_paper_is_shown_or_says_why_not() {
    for paper in all() {
        let mut numbers = BTreeSet::new();
        for figure in paper.figures {
            assert!(numbers.insert(figure.number), "{} twice", figure.number);
            assert!(
                figure.ours.is_empty() != figure.missing.is_empty(),
                "{}",
                figure.number
            );
            assert!(!figure.shows.is_empty());
        }
    }
}
