//! What the page asks for: open a scenario, run a cell, take in a result, make the report.

use howdah_lab::run::{InMemory, Origin, describe};
use howdah_lab::scenario::{Wanted, parse_among};
use howdah_report::parcel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is to be run.
#[derive(Debug, Deserialize)]
pub struct Request {
    /// Name of the scenario among the files.
    pub path: PathBuf,
    /// All files that there are: what it can include, and itself.
    pub files: BTreeMap<PathBuf, String>,
    /// The reduced set.
    #[serde(default)]
    pub quick: bool,
    /// What the browser says of itself, and of its processors.
    #[serde(default)]
    pub machine: BTreeMap<String, String>,
    /// Address that repeats the run.
    #[serde(default)]
    pub address: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub started_unix_s: u64,
}

/// What was opened.
#[derive(Debug, Serialize)]
pub struct Opened {
    /// The cells, in their order.
    pub cells: Vec<Place>,
}

/// A cell of it.
#[derive(Debug, Serialize)]
pub struct Place {
    /// Where it stands: `J-A1 buffer=127packets protocol=fast`.
    pub name: String,
    /// How much work it is beside the others.
    pub cost: f64,
}

/// A scenario that is open.
#[derive(Debug)]
pub struct Laboratory {
    campaign: InMemory,
}

impl Laboratory {
    /// Opens the scenario of a [`Request`] in JSON. The error is for people.
    pub fn open(request: &[u8]) -> Result<(Self, Opened), String> {
        let request: Request =
            serde_json::from_slice(request).map_err(|error| error.to_string())?;
        let wanted = Wanted {
            quick: request.quick,
            sweep: false,
        };
        let plan = parse_among(request.files, &request.path, wanted);
        let plan = plan.map_err(|error| error.to_string())?;
        let cells = plan.cells().map(|cell| Place {
            name: describe(cell),
            cost: cell.cost(),
        });
        let opened = Opened {
            cells: cells.collect(),
        };
        let origin = Origin {
            machine: request.machine,
            command: request.address,
            started_unix_s: request.started_unix_s,
            ..Origin::built()
        };
        let campaign = InMemory::new(plan, request.quick, origin);
        Ok((Self { campaign }, opened))
    }

    /// Runs a cell. Its result as bytes, for [`Laboratory::add`] of any instance with the same scenario.
    pub fn run(&self, index: usize) -> Result<Vec<u8>, String> {
        if index >= self.campaign.cells() {
            return Err(format!("there is no cell {index}"));
        }
        parcel::wrap(&self.campaign.run(index))
    }

    /// Takes in the result of a cell that took `wall_s` seconds: there is no clock in here.
    pub fn add(&mut self, index: usize, result: &[u8], wall_s: f64) -> Result<(), String> {
        let mut result = parcel::unwrap(result)?;
        result.wall_s = wall_s;
        if self.campaign.add(index, result) {
            Ok(())
        } else {
            Err(format!("that is no result of cell {index}"))
        }
    }

    /// The report of the results that there are, as HTML.
    pub fn report(&self) -> String {
        self.campaign.report()
    }
}
