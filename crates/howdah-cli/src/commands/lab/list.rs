//! `howdah lab list`.

use crate::args::LabListArgs;
use crate::ui;
use howdah_lab::catalog;
use howdah_lab::scenario::{self, Experiment};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn run(args: &LabListArgs) -> anyhow::Result<()> {
    if args.protocols {
        return protocols(args.json);
    }
    let plan = scenario::load(&args.paths, args.quick).map_err(|e| super::bad_scenario(&e))?;
    if args.json {
        let list: Vec<_> = plan.experiments.iter().map(as_json).collect();
        ui::print(&serde_json::to_string(&list)?)?;
        return Ok(());
    }
    for experiment in &plan.experiments {
        ui::print(line(experiment).trim_end())?;
    }
    let cells = plan.cells().count();
    ui::print(&format!(
        "{} experiments, {cells} cells",
        plan.experiments.len()
    ))?;
    Ok(())
}

fn protocols(as_json: bool) -> anyhow::Result<()> {
    let all = catalog::describe();
    if as_json {
        let list: Vec<_> = all
            .iter()
            .map(|(name, about)| json!({ "name": name, "about": about }))
            .collect();
        ui::print(&serde_json::to_string(&list)?)?;
    } else {
        let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, about) in all {
            ui::print(&format!("{name:<width$}  {about}"))?;
        }
    }
    Ok(())
}

fn line(experiment: &Experiment) -> String {
    let mut text = format!(
        "{:<10} {:>4} cells  {}",
        experiment.id,
        experiment.cells.len(),
        experiment.title
    );
    for (axis, labels) in &experiment.axes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{:<10}   {axis}: {}", "", labels.join(", "));
    }
    text
}

fn as_json(experiment: &Experiment) -> serde_json::Value {
    let axes: serde_json::Map<_, _> = experiment
        .axes
        .iter()
        .map(|(axis, labels)| (axis.clone(), json!(labels)))
        .collect();
    json!({
        "id": experiment.id,
        "title": experiment.title,
        "paper": experiment.paper,
        "figure": experiment.figure,
        "file": experiment.file,
        "axes": axes,
        "cells": experiment.cells.len(),
        "not_stated": experiment.chosen,
        "fitted": experiment.fitted,
    })
}
