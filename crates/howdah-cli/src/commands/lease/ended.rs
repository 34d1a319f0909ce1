//! What `howdah finish` says of a plan of one file.

use super::numbers;
use crate::args::FinishArgs;
use crate::ui;
use howdah::lease::PlanRecord;
use howdah_lease::Plan;
use serde_json::json;
use std::collections::BTreeMap;

/// Says what it has become.
pub(super) fn tell(args: &FinishArgs, plan: &Plan, blake3: &str) -> anyhow::Result<()> {
    if args.json {
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": plan.version().size,
            "leases": plan.leases(),
            "blake3": blake3,
        });
        ui::print(&line.to_string())?;
    } else {
        ui::print(&format!("{blake3}  {}", ui::printable(plan.destination())))?;
    }
    Ok(())
}

/// Says what is missing.
pub(super) fn check(
    args: &FinishArgs,
    plan: &Plan,
    records: &[PlanRecord],
    has_plan: bool,
) -> anyhow::Result<()> {
    // Several runs of a lease count as one.
    let moved: BTreeMap<u64, &PlanRecord> = records.iter().map(|r| (r.lease, r)).collect();
    // What is finished lacks nothing, whatever is cleared up of its records.
    let missing: Vec<u64> = (0..plan.leases())
        .filter(|lease| has_plan && !moved.contains_key(lease))
        .collect();
    if args.json {
        let run = |record: &&PlanRecord| {
            json!({
                "lease": record.lease,
                "epoch": record.epoch,
                "bytes": record.bytes,
                "seconds": record.seconds,
            })
        };
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": plan.version().size,
            "leases": plan.leases(),
            "missing": missing,
            "moved": moved.values().map(run).collect::<Vec<_>>(),
        });
        ui::print(&line.to_string())?;
        return Ok(());
    }
    ui::say(&format!(
        "{} of {} leases are moved",
        plan.leases() - missing.len() as u64,
        plan.leases()
    ));
    let missing = numbers(missing);
    if !missing.is_empty() {
        ui::print(&missing)?;
    }
    Ok(())
}
