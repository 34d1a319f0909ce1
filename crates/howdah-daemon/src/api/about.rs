//! What this daemon is, and what whoever asks may do here.

use super::Shared;
use super::shapes::About;
use crate::time::now_ms;
use crate::tokens::Role;
use axum::extract::State as Given;
use axum::{Extension, Json};
use std::sync::Arc;

/// What this daemon is, and what you may.
#[utoipa::path(
    get,
    path = "/v1/about",
    responses((status = 200, description = "This daemon", body = About))
)]
pub(super) async fn show(
    Given(shared): Given<Arc<Shared>>,
    Extension(role): Extension<Role>,
) -> Json<About> {
    Json(about(&shared, role))
}

pub(super) fn about(shared: &Shared, role: Role) -> About {
    let allow = shared.bounds.allow.iter();
    // Where jobs run of whoever comes from elsewhere and says nothing.
    let home = match shared.bounds.allow.first() {
        Some(first) if shared.bounds.check_place(&shared.home).is_err() => first,
        _ => &shared.home,
    };
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: role.name().to_owned(),
        started_ms: shared.started_ms,
        now_ms: now_ms(),
        home: home.display().to_string(),
        allow: allow.map(|dir| dir.display().to_string()).collect(),
        max_running: shared.running.running,
        max_per_host: shared.running.per_host,
    }
}
