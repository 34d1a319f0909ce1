//! What the API is, for programs: the routes and their description come from the same place.

use super::{Shared, events, jobs, limits, schedules, watches};
use crate::job::{JobId, JobView};
use crate::limits::HostView;
use crate::schedule::ScheduleView;
use crate::watch::WatchView;
use axum::Router;
use serde::Serialize;
use std::sync::Arc;
use utoipa::openapi::OpenApi as Document;
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Why a request was not met.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    pub(super) error: Words,
}

/// In words.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Words {
    /// As `error.kind` of docs/json.md.
    pub(super) kind: String,
    /// For people.
    pub(super) message: String,
}

/// What was made of a submission.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Submitted {
    /// The job.
    pub(super) id: JobId,
    /// False if it was submitted before by the same name.
    pub(super) new: bool,
}

/// A page of jobs, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Jobs {
    /// They, without attempts, history and last event.
    pub(super) jobs: Vec<JobView>,
    /// What to give as `before` for the next page; null if there is none.
    pub(super) next_before: Option<JobId>,
}

/// A schedule that was added.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleId {
    /// Its number.
    pub(super) id: i64,
}

/// All schedules.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Schedules {
    /// They, the oldest first.
    pub(super) schedules: Vec<ScheduleView>,
}

/// Something that was added.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Made {
    /// Its number.
    pub(super) id: i64,
}

/// All watched directories.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Watches {
    /// They, the oldest first.
    pub(super) watches: Vec<WatchView>,
}

/// All machines.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Hosts {
    /// They, by name.
    pub(super) hosts: Vec<HostView>,
}

#[derive(OpenApi)]
#[openapi(info(
    title = "howdah daemon",
    description = "Jobs that outlive terminals, over a Unix socket that only the daemon's user and root may use. docs/daemon.md says more."
))]
struct Api;

/// Both in one.
pub(super) fn routes() -> (Router<Arc<Shared>>, Document) {
    let (routes, mut document) = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::show))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::hold))
        .routes(routes!(jobs::release))
        .routes(routes!(events::follow))
        .routes(routes!(schedules::add, schedules::list))
        .routes(routes!(schedules::show, schedules::remove))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(watches::add, watches::list))
        .routes(routes!(watches::show, watches::remove))
        .routes(routes!(watches::pause))
        .routes(routes!(watches::resume))
        .routes(routes!(limits::show, limits::set))
        .routes(routes!(limits::limit_job))
        .routes(routes!(limits::hosts))
        .routes(routes!(limits::set_host))
        .split_for_parts();
    // That of the API, not that of the program.
    "1".clone_into(&mut document.info.version);
    (routes, document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_document_is_the_one_in_docs() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howdah-daemon.openapi.json");
        let mut text = routes().1.to_pretty_json().unwrap();
        text.push('\n');
        if std::env::var_os("HOWDAH_UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            known == text,
            "HOWDAH_UPDATE=1 writes {} anew",
            path.display()
        );
    }
}
