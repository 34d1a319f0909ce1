//! What the API is, for programs: the routes and their description come from the same place.

use super::{
    Shared, about, all_events, errands, events, figures, files, jobs, limits, output, schedules,
    tickets, watches,
};
use axum::Router;
use std::sync::Arc;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "howdah daemon",
        description = "Jobs that outlive terminals, over a Unix socket that only the daemon's user and root may use, and over TCP for who shows a token. docs/daemon.md says more."
    ),
    // Over the socket there is none: the kernel says who asks.
    security(("token" = []), ()),
    modifiers(&Bearer)
)]
struct Api;

/// What is shown over TCP.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut Document) {
        let text = "a token of the file 'tokens' in the daemon's directory";
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some(text.to_owned());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Both in one.
pub(super) fn routes() -> (Router<Arc<Shared>>, Document) {
    let (routes, mut document) = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(about::show))
        .routes(routes!(all_events::follow))
        .routes(routes!(files::list))
        .routes(routes!(errands::list))
        .routes(routes!(errands::doctor))
        .routes(routes!(errands::bench))
        .routes(routes!(figures::show))
        .routes(routes!(tickets::make))
        .routes(routes!(tickets::redeem))
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::show))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::hold))
        .routes(routes!(jobs::release))
        .routes(routes!(events::follow))
        .routes(routes!(output::show))
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
    fn whoever_comes_over_tcp_reads_how_he_proves_himself() {
        let document = serde_json::to_value(routes().1).unwrap();
        let scheme = &document["components"]["securitySchemes"]["token"];
        assert_eq!(
            (&scheme["type"], &scheme["scheme"]),
            (&"http".into(), &"bearer".into())
        );
        assert_eq!(
            document["security"],
            serde_json::json!([{ "token": [] }, {}])
        );
    }

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
