//! The page for people: what is built in console/built, which asks the API like anybody else.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

const PAGE: &str = include_str!("../../console/built/index.html");
const SCRIPT: &str = include_str!("../../console/built/console.js");
const STYLE: &str = include_str!("../../console/built/style.css");

/// Nothing from elsewhere, nothing inline, no markup made of text, and no page of others around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether that is a part of the page, which has no secrets: it is given to who has no token yet.
pub(super) fn is_page(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
        && ["/", "/console.js", "/style.css"].contains(&path)
}

fn part(kind: &'static str, text: &'static str) -> Response {
    let fixed = |(name, value): (HeaderName, &'static str)| (name, HeaderValue::from_static(value));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A daemon of another version has another page.
        (header::CACHE_CONTROL, "no-cache"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    (headers.map(fixed), text).into_response()
}

/// The page's own routes.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(async || part("text/html; charset=utf-8", PAGE)))
        .route(
            "/console.js",
            get(async || part("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route(
            "/style.css",
            get(async || part("text/css; charset=utf-8", STYLE)),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_has_nothing_inline() {
        assert!(PAGE.len() + SCRIPT.len() + STYLE.len() <= 150 << 10);
        for inline in [
            "<style",
            "style=",
            "onclick",
            "onload",
            "javascript:",
            "http://",
            "https://",
        ] {
            assert!(!PAGE.contains(inline), "{inline}");
        }
        assert_eq!(PAGE.matches("<script").count(), 1);
        assert!(PAGE.contains(r#"src="console.js"></script>"#));
        assert!(is_page(&Method::GET, "/") && !is_page(&Method::POST, "/"));
        assert!(!is_page(&Method::GET, "/v1/jobs") && !is_page(&Method::GET, "//"));
    }
}
